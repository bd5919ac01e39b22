/**
 * The outcome of a tool call, for the journal and for the model. A call can end without an answer in four ways, and each has one
 * sentence here, whether a box, a command of the user or an MCP server was called: by it the model decides whether to call again.
 */
import type { Fault } from '@breakfall/faults'
import type { ExecExit, TOOL_OUTCOMES } from '@breakfall/wire'

const MAY_HAVE_RUN = 'It may have had all, some or none of its effects'

export type ToolOutcome = {
  readonly outcome: (typeof TOOL_OUTCOMES)[number]
  readonly text: string
  readonly exit?: ExecExit | undefined
}

export const failedOutcome = (text: string): ToolOutcome => ({ outcome: 'failed', text })

/** It was refused, or did not leave. `why` is a sentence. */
export const notRun = (why: string): ToolOutcome => failedOutcome(`This was not run: ${why}`)

/** It left, and its answer was lost or did not come in time. */
export const unknownOutcome = (why: string): ToolOutcome => ({
  outcome: 'unknown',
  text: `It is unknown whether this ran: ${why.replace(/\.$/, '')}. ${MAY_HAVE_RUN}, and it was not run again. Check what it did before you repeat it.`,
})

export const CANCELLED_BEFORE: ToolOutcome = { outcome: 'cancelled', text: 'Cancelled before it ran.' }

/** A stop request was sent, which undoes nothing. */
export const CANCELLED_LATE: ToolOutcome = { outcome: 'cancelled', text: `Cancelled while it ran. ${MAY_HAVE_RUN}.` }

/** The outcome of a call whose turn ended. `isUnsure`: the call may have had effects that the outcome does not tell. */
export type StoppedCall = ToolOutcome & { readonly isUnsure: boolean }

export const stoppedBefore = (fault: Fault): StoppedCall => ({
  ...(isCancel(fault) ? CANCELLED_BEFORE : notRun(fault.error)),
  isUnsure: false,
})

/** If it was sent to a server, the end of the call told it to stop. */
export const stoppedLate = (fault: Fault): StoppedCall => ({
  ...(isCancel(fault) ? CANCELLED_LATE : ENDED_TOO_EARLY),
  isUnsure: true,
})

export const ENDED_TOO_EARLY: ToolOutcome = unknownOutcome('the turn ended before its outcome was known')

export const BOX_LOST: ToolOutcome = notRun(
  'the sandbox of this session was lost, with every file in it. A new, empty one was created. Start over from there.',
)

// ---- details ----

const isCancel = (fault: Fault): boolean => fault.class === 'cancelled'
