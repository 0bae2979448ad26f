-- For wrk: call act in one of many sessions, then feedback for the drawn arm; or repeat one request.
--
-- BENCH_ACT, BENCH_FEEDBACK              paths, "%d" stands for the session
-- BENCH_SESSIONS                         number of sessions
-- BENCH_EVENT                            JSON: %d stands for the arm, and %s behind it for an id
-- BENCH_METHOD, BENCH_PATH, BENCH_BODY   the request to repeat, where there is no BENCH_ACT

local act, feedback = os.getenv("BENCH_ACT"), os.getenv("BENCH_FEEDBACK")
local sessions = tonumber(os.getenv("BENCH_SESSIONS"))
local json = { ["Content-Type"] = "application/json" }
local event, events, begun = os.getenv("BENCH_EVENT"), 0, os.time()
local drawn, first, last = {}, 1, 0

if not act then
  wrk.method, wrk.path, wrk.body = os.getenv("BENCH_METHOD"), os.getenv("BENCH_PATH"), os.getenv("BENCH_BODY")
  wrk.headers = wrk.body and json or {}
else
  -- Which session was asked is said by the request id, where it comes back, else by the answer.
  function request()
    if last >= first then
      local session, arm = unpack(drawn[first])
      drawn[first], first = nil, first + 1
      events = events + 1
      return wrk.format("POST", feedback:format(session), json, event:format(arm, begun .. "-" .. events))
    end
    local session = math.random(0, sessions - 1)
    return wrk.format("POST", act:format(session), { ["X-Request-Id"] = tostring(session) })
  end

  function response(_, headers, body)
    local arm = body:match('"arm": *(%d+)')
    if arm then
      last = last + 1
      drawn[last] = { tonumber(headers["x-request-id"] or body:match('"session": *(%d+)') or 0), arm }
    end
  end
end
