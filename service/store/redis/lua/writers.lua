-- Functions of commit.lua: who wrote a session, and in which version last.
-- MAX_WRITERS comes from prelude.lua.
--
-- A session's field `writers` has a line for each writer: its name and the version that its last commit made, the
-- longest silent first. The line of the present version may be missing, as most versions begin with the name of their
-- writer: a worker that commits again and again does not write `writers` each time.

-- The writer's name that a version begins with, before a hyphen; nil where it does not.
local function owner_of(version)
  return string.match(version, '^(%x+)%-')
end

-- A writer's version, or false; and the lines without its own.
local function line_of(writers, name)
  local from = string.find(writers, '\n' .. name .. ' ', 1, true)
  if not from then
    return false, writers
  end
  local upto = string.find(writers, '\n', from + 1, true) or #writers + 1
  return string.sub(writers, from + #name + 2, upto - 1), string.sub(writers, 1, from - 1) .. string.sub(writers, upto)
end

local function with_line(writers, name, version)
  local _, others = line_of(writers, name)
  return others .. '\n' .. name .. ' ' .. version
end

-- The field `writers` after a commit.
--
-- writers  before it; false where there is none, and then the version before it is that of the creation
-- owner    whom the version before it names, or nil
-- before   that version
-- writer   of the commit
-- version  of the commit, or false where it names its writer
local function with_writers(writers, owner, before, writer, version)
  local _, lines = line_of(writers or '', writer)
  if writers and owner and owner ~= writer then
    lines = with_line(lines, owner, before)
  end
  lines = version and with_line(lines, writer, version) or lines
  for _ = 1, select(2, string.gsub(lines, '\n', '\n')) - (version and MAX_WRITERS or MAX_WRITERS - 1) do
    lines = string.sub(lines, string.find(lines, '\n', 2, true) or #lines + 1, -1)
  end
  return lines
end
