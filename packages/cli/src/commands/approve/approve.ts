/** `breakfall approve`: lists tool calls that wait for a person, and answers them. */
import type { SessionViewer } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import type { AnswerValue, ApprovalDecision, SessionEventOf, Turn } from '@breakfall/wire'
import { fieldsOf, parkIn, questionOf, valueFrom } from '@breakfall/wire/turn'
import type { Context } from '../../command-line/context.ts'
import { findDaemon, oneShotClient } from '../../daemon/find.ts'
import { keyForTurn } from '../../model/brought-model.ts'
import { cmd } from '../../process/command-name.ts'
import { callText } from '../../render/call-text.ts'
import { showTurn } from '../../render/turn-lines.ts'
import { turnFor } from '../../sessions/lookup.ts'
import { findViewer } from '../../sessions/viewer.ts'
import type { Output } from '../../terminal/output.ts'
import { utcTime } from '../../text/amounts.ts'

export type ApproveOptions = {
  readonly deny?: boolean
  readonly session?: boolean
  readonly reason?: string
  readonly show?: boolean
  readonly value?: readonly string[]
}

export async function approveCommand(
  context: Context,
  options: ApproveOptions,
  id: string | undefined,
): Promise<number | void> {
  const { config, out } = context
  if (options.deny === true && options.session === true)
    throw new Fault('invalid_request', { error: '--deny and --session contradict each other' })
  const { deny, session, reason: given, value, show = false } = options
  if (show && (deny ?? session ?? given ?? value) !== undefined)
    throw new Fault('invalid_request', {
      error: '--show answers nothing, so it takes no --deny, --session, --reason or --value',
    })
  const { viewer } = await findViewer(config, '')
  if (id === undefined) return listWaiting(viewer, show, context)
  const turn = await turnFor(viewer, id)
  if (turn.approval === undefined) {
    const before = await lastAnswer(viewer, turn)
    if (show || before === undefined || (before.decision === 'deny') !== (deny === true)) throw notWaiting(turn, before)
    out.say(`This call was ${wordFor(before)} before, at ${utcTime(before.at)}; nothing changed.`)
    return showTurn(turn, out)
  }
  if (show) return showWaiting([turn], show, out)
  const decision: ApprovalDecision =
    options.deny === true ? 'deny' : options.session === true ? 'allow_session' : 'allow'
  const reason = options.reason === undefined ? {} : { reason: options.reason }
  const answer = { decision, ...reason, ...answerTo(turn.approval, options) }
  const daemon = await findDaemon(config)
  if (daemon === undefined) {
    // No daemon would continue the turn, so this command does, to its end.
    const isolation = turn.approval.tool.startsWith('mcp__') ? {} : ({ isolation: 'process' } as const)
    const { runCommand } = await import('../run/run.ts')
    return runCommand(context, { session: turn.sessionId, answer: { ...answer, ...isolation } }, [])
  }
  const { callId } = turn.approval
  const provider = keyForTurn(turn, config) // a daemon that restarted has forgotten the key
  showTurn(await oneShotClient(daemon.address).approve(turn.id, { callId, ...answer, provider }), out)
}

/** The answer to the last call that was asked about. */
export async function lastAnswer(
  viewer: Pick<SessionViewer, 'events' | 'session'>,
  turn: Turn,
): Promise<Answer | undefined> {
  const { id, sessionId, firstSeq = 1 } = turn
  const lastSeq = turn.lastSeq ?? (await viewer.session(sessionId)).lastSeq
  let answer: Answer | undefined
  if (lastSeq >= firstSeq)
    for await (const event of viewer.events(sessionId, { after: firstSeq - 1 })) {
      if (event.type === 'approval' && event.turnId === id) answer = event
      if (event.seq >= lastSeq) break
    }
  return answer
}

export function notWaiting({ id, state }: Turn, answer: Answer | undefined): Fault {
  const error =
    answer === undefined
      ? `Turn ${id} does not wait for an approval; it is ${state}`
      : `This call no longer waits: it was ${wordFor(answer)} at ${utcTime(answer.at)}.`
  return new Fault('turn_not_parked', { error, turnId: id })
}

// ---- details ----

type Answer = SessionEventOf<'approval'>

const wordFor = ({ decision, question }: Answer): string =>
  decision === 'deny' ? 'denied' : question === undefined ? 'approved' : 'answered'

/** What an answer to the call's server says. Nothing if only a yes is asked for. */
function answerTo(
  { question }: NonNullable<Turn['approval']>,
  { deny, value = [] }: ApproveOptions,
): { readonly question?: string; readonly value?: AnswerValue } {
  if (question === undefined) {
    if (value.length === 0) return {}
    throw new Fault('invalid_request', { error: 'This call waits for an approval, which takes no --value' })
  }
  if (deny === true) return { question: question.id }
  const given = valueFrom(question, value)
  if (typeof given === 'string') throw new Fault('invalid_request', { error: `--value: ${given}` })
  return { question: question.id, value: given }
}

async function listWaiting(viewer: SessionViewer, isWhole: boolean, { out }: Context): Promise<void> {
  const { sessions } = await viewer.sessionPage({ state: 'parked' })
  const waiting: Turn[] = []
  for (const { turn } of sessions) {
    const park = parkIn(turn)
    if (turn != null && park !== null && questionOf(park) === 'approval') waiting.push(await viewer.turn(turn.id))
  }
  showWaiting(waiting, isWhole, out)
}

/** Each call to its end if `isWhole`. A program always gets all of it. */
function showWaiting(waiting: readonly Turn[], isWhole: boolean, out: Output): void {
  if (out.json) {
    for (const { id: turnId, sessionId, approval } of waiting) out.data({ turnId, sessionId, ...approval })
    return out.result({ outcome: 'finished', waiting: waiting.length })
  }
  if (waiting.length === 0) out.line('no call waits for an approval')
  for (const { sessionId, approval } of waiting) {
    if (approval === undefined) continue
    const { text, isCut } = callText(approval.tool, approval.arguments, isWhole ? Infinity : undefined)
    out.line(`${sessionId}  ${text}`)
    const until = approval.expiresAt === null ? '' : `; it waits until ${utcTime(approval.expiresAt)}`
    out.line(`  ${approval.why}${until}`)
    const fields = approval.question === undefined ? [] : fieldsOf(approval.question)
    for (const { label } of fields) out.line(`    ${label}`)
    if (isCut) out.line(`  to see all of it: ${cmd('approve')} ${sessionId} --show`)
    const values = fields.map(({ name }) => ` --value ${name}=…`).join('')
    out.line(`  ${cmd('approve')} ${sessionId}${values}   or   ${cmd('approve')} ${sessionId} --deny --reason TEXT`)
  }
}
