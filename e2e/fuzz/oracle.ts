/**
 * Judges what a client got. It knows every answer that the upstream could give, and reads with readers of its own.
 *
 * I1  An answer with a proper end is one whole answer of one attempt: nothing doubled, missing, changed or mixed.
 * I2  Anything else ends visibly, and what went out before is the beginning of an answer. A call in it only without a hold.
 * I3  If one attempt alone reached the client, its frames are unchanged.
 */
import { apiOf } from './apis.ts'
import type { Case, Frame } from './case.ts'
import type { Reply } from './client.ts'
import { isBeginning, type Said } from './said.ts'
import { deliveredFrames, type Sending } from './upstream.ts'
import { framesIn } from './wire.ts'

/** One response of the upstream, and what it says when it is not cut. */
export type Sent = { readonly sending: Sending; readonly truth: Said; readonly isContinuation: boolean }

export type Wrong = { readonly kind: string; readonly detail: string }

export type Verdict = {
  readonly wrong?: Wrong
  /** `unhealed`: ended visibly, though another attempt had the rest. */
  readonly end: 'accepted' | 'healed' | 'refused' | 'broken' | 'unhealed'
}

export function judge(made: Case, sent: readonly Sent[], reply: Reply): Verdict {
  const api = apiOf(made.api)
  const wrong = (kind: string, detail: string, end: Verdict['end'] = 'accepted'): Verdict => ({
    wrong: { kind, detail },
    end,
  })
  if (reply.isHung) return wrong('hang', `no end after ${reply.body.length} bytes`)
  if (reply.status === 0) return wrong('no answer', 'the connection was closed without a response')
  const last = sent.at(-1)
  if (reply.status !== 200) {
    const whole = sent.findIndex(({ sending }) => sending.cut === undefined && (sending.status ?? 200) === 200)
    return whole === -1
      ? { end: 'refused' }
      : wrong(
          'whole answer refused',
          `attempt ${whole + 1} was whole, the client got ${reply.status}: ${reply.body.toString().slice(0, 300)}`,
        )
  }
  const { frames } = framesIn(reply.body)
  const said = api.read(frames)
  const [problem] = said.problems
  if (problem !== undefined) return wrong('protocol', problem)
  const proven = sent.filter(({ sending }) => api.read(deliveredFrames(sending)).isProven)
  const isAccepted = !said.isError && (said.isComplete || (said.isProven && reply.isWhole))
  if (!isAccepted) {
    if (reply.isWhole && !said.isError) return wrong('silent end', 'a proper end without a complete answer')
    if (!sent.some(({ truth }) => isBeginning(said, truth)))
      return wrong('not the beginning', `no attempt begins with what was sent: ${shown(said)}`)
    const calls = said.pieces.filter(({ kind }) => kind === 'call')
    if (calls.length > 0 && proven.length === 0 && made.setting.hold !== 'none' && made.setting.limit === undefined)
      return wrong('early call', `a call went out before the proof: ${shown(said)}`)
    const couldHeal = last !== undefined && last.sending.cut === undefined && isBeginning(said, last.truth)
    return { end: couldHeal ? 'unhealed' : 'broken' }
  }
  if (proven.length === 0) return wrong('invented end', 'no attempt was complete, but the client got a proper end')
  const differences = proven.map(({ truth }) => differenceOf(said, truth))
  const matches = proven.filter((_, at) => differences[at] === undefined)
  if (matches.length === 0) {
    const difference = differences.at(-1)
    return wrong(difference?.kind ?? 'mixed', difference?.detail ?? '')
  }
  const { hold, limit } = made.setting
  const isHeld = limit === undefined && (hold === 'answer' || (hold === 'auto' && made.body['tools'] !== undefined))
  if (sent.length === 1 || isHeld) {
    const changes = matches.map(({ sending }) =>
      sending.whole === undefined ? changedFrame(frames, sending.frames) : undefined,
    )
    if (changes.every((change) => change !== undefined)) return wrong('changed frame', changes.at(-1) ?? '') // I3
  }
  return { end: sent.length > 1 ? 'healed' : 'accepted' }
}

export const shown = ({ pieces, finish, usage }: Said): string => JSON.stringify({ pieces, finish, usage })

// ---- details ----

function differenceOf(got: Said, truth: Said): Wrong | undefined {
  const kinds = ['text', 'thought', 'refusal', 'call', 'opaque', 'item'] as const
  const of = (said: Said, kind: string): string => JSON.stringify(said.pieces.filter((piece) => piece.kind === kind))
  for (const kind of kinds)
    if (of(got, kind) !== of(truth, kind))
      return { kind: `${kind} differs`, detail: `the client has ${of(got, kind)}, the answer is ${of(truth, kind)}` }
  if (JSON.stringify(got.pieces) !== JSON.stringify(truth.pieces))
    return { kind: 'order differs', detail: `${shown(got)} instead of ${shown(truth)}` }
  if (JSON.stringify(got.finish) !== JSON.stringify(truth.finish))
    return {
      kind: 'finish differs',
      detail: `${JSON.stringify(got.finish)} instead of ${JSON.stringify(truth.finish)}`,
    }
  if (got.isComplete && JSON.stringify(got.usage) !== JSON.stringify(truth.usage))
    return {
      kind: got.usage === undefined ? 'usage lost' : 'usage differs',
      detail: `${JSON.stringify(got.usage)} instead of ${JSON.stringify(truth.usage)}`,
    }
  return undefined
}

function changedFrame(got: readonly Frame[], sent: readonly Frame[]): string | undefined {
  const plain = ({ event, data }: Frame): string =>
    `${event ?? ''} ${data === '[DONE]' ? data : JSON.stringify(JSON.parse(data))}`
  const [mine, theirs] = [got.map(plain), sent.map(plain)]
  const at = theirs.findIndex((frame, index) => frame !== mine[index])
  // Without its last frames, a proven answer is the same answer.
  if (at !== -1 && mine[at] !== undefined) return `frame ${at + 1} is ${mine[at]} instead of ${theirs[at]}`
  return mine.length > theirs.length ? `one frame more: ${mine[theirs.length]}` : undefined
}
