/** The outcome of a tool call, for the journal and for the model. */
import type { ExecExit, TOOL_OUTCOMES } from '@breakfall/wire'

export type ToolOutcome = {
  readonly outcome: (typeof TOOL_OUTCOMES)[number]
  readonly text: string
  readonly exit?: ExecExit | undefined
}

export function unknownOutcome(why: string): ToolOutcome {
  return {
    outcome: 'unknown',
    text: `It is unknown whether this ran: ${why}. It may have had all, some or none of its effects, and it was not run again. Check the workspace before you repeat it.`,
  }
}

export const BOX_LOST: ToolOutcome = {
  outcome: 'failed',
  text: 'This was not run: the sandbox of this session was lost, with every file in it. A new, empty one was created. Start over from there.',
}

export const failedOutcome = (text: string): ToolOutcome => ({ outcome: 'failed', text })
