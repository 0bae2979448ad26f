"""The study of learners in many worlds: players of many runs, worlds, cells of results, and the page of them."""
