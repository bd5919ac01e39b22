/** `breakfall approve`: lists tool calls that wait for a person, and answers them. */
import type { SessionViewer } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import type { ApprovalDecision, Turn } from '@breakfall/wire'
import type { Context } from '../context.ts'
import { findDaemon, findViewer, oneShotClient } from '../daemon/find.ts'
import { utcTime } from '../render/parked.ts'
import { printable } from '../render/printable.ts'
import { keyForTurn } from '../run/brought-model.ts'
import { showTurn, turnFor } from './sessions.ts'

export type ApproveOptions = { readonly deny?: boolean; readonly session?: boolean; readonly reason?: string }

export async function approveCommand(
  context: Context,
  options: ApproveOptions,
  id: string | undefined,
): Promise<number | void> {
  const { config, out } = context
  if (options.deny === true && options.session === true)
    throw new Fault('invalid_request', { error: '--deny and --session contradict each other' })
  const { viewer } = await findViewer(config, '')
  if (id === undefined) return list(viewer, context)
  const turn = await turnFor(viewer, id)
  if (turn.approval === undefined)
    throw new Fault('turn_not_parked', { error: `Turn ${turn.id} does not wait for an approval; it is ${turn.state}` })
  const decision: ApprovalDecision =
    options.deny === true ? 'deny' : options.session === true ? 'allow_session' : 'allow'
  const reason = options.reason === undefined ? {} : { reason: options.reason }
  const daemon = await findDaemon(config)
  if (daemon === undefined) {
    // No daemon would continue the turn, so this command does, to its end.
    const isolation = turn.approval.tool.startsWith('mcp__') ? {} : ({ isolation: 'process' } as const)
    const { runCommand } = await import('./run.ts')
    return runCommand(context, { session: turn.sessionId, answer: { decision, ...reason, ...isolation } }, [])
  }
  const { callId } = turn.approval
  const provider = keyForTurn(turn, config) // a daemon that restarted has forgotten the key
  showTurn(await oneShotClient(daemon.address).approve(turn.id, { callId, decision, ...reason, provider }), out)
}

// ---- details ----

async function list(viewer: SessionViewer, { out }: Context): Promise<void> {
  const { sessions } = await viewer.sessionPage({ state: 'parked' })
  const waiting: Turn[] = []
  for (const { turn } of sessions) {
    if (turn?.parked?.category === 'approval_needed') waiting.push(await viewer.turn(turn.id))
  }
  if (out.json) {
    for (const { id: turnId, sessionId, approval } of waiting) out.data({ turnId, sessionId, ...approval })
    return out.result({ outcome: 'finished', waiting: waiting.length })
  }
  if (waiting.length === 0) out.line('no call waits for an approval')
  for (const { sessionId, approval } of waiting) {
    if (approval === undefined) continue
    out.line(`${sessionId}  ${approval.tool} ${printable(JSON.stringify(approval.arguments)).slice(0, 300)}`)
    const until = approval.expiresAt === null ? '' : `; it waits until ${utcTime(approval.expiresAt)}`
    out.line(`  ${approval.why}${until}`)
    out.hint(`  breakfall approve ${sessionId}   or   breakfall approve ${sessionId} --deny --reason TEXT`)
  }
}
