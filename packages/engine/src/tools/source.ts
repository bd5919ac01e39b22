/** Tools of one kind: the built-in ones, the user's own commands, those of MCP servers. What a kind does differently is said here only. */
import type { Fault } from '@breakfall/faults'
import type { ToolSpec } from '@breakfall/model'
import type { SessionData } from '../rows.ts'
import type { ToolCall } from '../turn/state.ts'
import type { LeftBehind } from '../session/call-ledger.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import type { AsksPerson, GiveUp } from '../turn/step-result.ts'
import type { StoppedCall, ToolOutcome } from '../turn/tool-outcome.ts'

/** The tools that a session's creator chose. */
export type ToolChoice = Pick<SessionData, 'tools' | 'outside'>

export type OfferedTool = {
  readonly spec: ToolSpec
  /** A hash of its definition, which the server of the tool may change. */
  readonly definition?: string
}

export type ToolSource = {
  /** Changes whenever its tools may have changed. */
  readonly version: number
  /** Whether its calls run in the session's box. */
  readonly needsBox: boolean
  /** Whether a session's creator may name such a tool. */
  knows(name: string): boolean
  /** Whether it answers calls of this name. */
  answers(tool: string, choice: ToolChoice): boolean
  /** What the session's model is offered of it now. */
  offered(choice: ToolChoice): readonly OfferedTool[]
  /** Why a call needs a yes under the policy `auto`, or null. Undefined: that is not known before the session has a box. */
  whyAsk(session: OwnedSession, tool: string): string | null | undefined
  /** Whether a call that an earlier process left open can have left it. */
  mayHaveLeft(call: ToolCall, data: LeftBehind): boolean
  run(session: OwnedSession, call: ToolCall): Promise<ToolOutcome | GiveUp | AsksPerson>
  /** The turn is ending with this fault: stops the call, and says what became of it. */
  stop(session: OwnedSession, call: ToolCall, fault: Fault): Promise<StoppedCall>
}

/** Whether the session may use this tool from outside. */
export function mayUse({ outside }: ToolChoice, tool: string, server?: string): boolean {
  if (outside === undefined) return true
  return outside.includes(tool) || (server !== undefined && outside.includes(`mcp__${server}`))
}
