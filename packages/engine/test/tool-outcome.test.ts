/** What a model reads about a call that has no answer. It decides by these words whether to call again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BOX_LOST, CANCELLED_BEFORE, CANCELLED_LATE, notRun, unknownOutcome } from '../src/turn/tool-outcome.ts'

test('each way in which a call ends without an answer has one sentence', () => {
  const told = [
    notRun('The tool t is not offered.'),
    unknownOutcome('The MCP server s failed (it exited with code 3).'),
    CANCELLED_BEFORE,
    CANCELLED_LATE,
    BOX_LOST,
  ]
  assert.deepEqual(
    told.map(({ outcome, text }) => `${outcome}: ${text}`),
    [
      'failed: This was not run: The tool t is not offered.',
      'unknown: It is unknown whether this ran: The MCP server s failed (it exited with code 3). It may have had all, some or none of its effects, and it was not run again. Check what it did before you repeat it.',
      'cancelled: Cancelled before it ran.',
      'cancelled: Cancelled while it ran. It may have had all, some or none of its effects.',
      'failed: This was not run: the sandbox of this session was lost, with every file in it. A new, empty one was created. Start over from there.',
    ],
  )
})
