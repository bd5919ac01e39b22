/**
 * Runs a call of an MCP server's tool.
 *
 * I1  The journal has the call before it leaves, and every repetition before that leaves.
 * I2  A call that left and got no answer is `unknown` and not repeated, unless the configuration trusts the tool and the tool
 *     says that repeating does no harm: then it is repeated once.
 * I3  A task's handle is in the journal before it is polled. Whoever recovers the turn polls the same task.
 */
import type { CallEnd } from '@breakfall/mcp'
import { Fault } from '@breakfall/faults'
import type { ToolCall } from '../turn/state.ts'
import type { LiveSession } from './live-session.ts'
import { mayUse } from './offered.ts'
import { forModel } from './output.ts'
import type { Ports } from './ports.ts'
import { CANCELLED_LATE, notRun, type ToolOutcome, unknownOutcome } from './tool-outcome.ts'

export const isMcpTool = (tool: string): boolean => tool.startsWith('mcp__')

export async function runMcp(ports: Ports, session: LiveSession, call: ToolCall): Promise<ToolOutcome> {
  const server = ports.outside.serverOf(call.tool)
  if (server === undefined || !mayUse(session.data, call.tool, server.name)) return notRun(noSuchTool(call.tool))
  const { signal } = session
  const { taskId } = call.sent
  if (taskId !== undefined) return outcomeOf(session, await server.follow({ taskId, pollMs: undefined }, signal)) // I3
  let sends = call.sent.times
  const mayRepeat = (): boolean => sends < SENDS_MAX && ports.outside.tool(call.tool)?.mayRepeat === true // I2
  if (sends > 0 && server.state !== 'ready')
    await server.settled(AbortSignal.any([signal, AbortSignal.timeout(server.awayMs)]))
  if (sends > 0 && !mayRepeat()) return unknownOutcome('Breakfall was interrupted while it ran')
  const sent = (more: { readonly taskId?: string; readonly refused?: boolean } = {}): Promise<unknown> =>
    session.append({
      type: 'tool-output',
      turnId: session.currentTurn.id,
      callId: call.callId,
      stream: 'stdout',
      text: '',
      sent: { server: server.name, ...more },
    })
  for (;;) {
    const end = await server.call(
      { tool: call.tool, arguments: call.arguments, hash: call.definition, key: call.execId },
      {
        signal,
        onSent: async () => {
          sends += 1
          await sent() // I1
          session.calls.starting(call.callId)
          ports.failpoint('after:sent')
        },
        onUnsent: async () => {
          sends -= 1
          await sent({ refused: true })
        },
        onTask: async (id) => {
          await sent({ taskId: id }) // I3
          ports.failpoint('after:task')
        },
      },
    )
    if (end.kind === 'lost' && mayRepeat()) continue
    if (end.kind === 'refused' && end.fault.category === 'mcp_auth_failed') {
      if (sends > call.sent.times) await sent({ refused: true })
      throw end.fault // the turn waits for credentials
    }
    return outcomeOf(session, end)
  }
}

// ---- details ----

const SENDS_MAX = 2

const noSuchTool = (tool: string): string =>
  new Fault('tool_not_offered', { facts: { name: tool.slice(0, 100) } }).error

function outcomeOf(session: LiveSession, end: CallEnd): ToolOutcome {
  switch (end.kind) {
    case 'answered':
      return { outcome: end.isError ? 'failed' : 'ok', text: forModel(session.secrets.scrub(end.text)) }
    case 'refused':
      return notRun(end.fault.error)
    case 'lost':
      return unknownOutcome(end.fault.report.message?.happened ?? end.fault.error) // its advice is for people
    case 'task':
      return unknownOutcome('its task was not followed')
    case 'cancelled':
      session.signal.throwIfAborted() // the cancel, the deadline or the shutdown says what follows
      return CANCELLED_LATE
  }
}
