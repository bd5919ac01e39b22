/**
 * Judges what a client got. It knows every answer that the upstream could give, and reads with readers of its own.
 *
 * I1  An answer with a proper end is one whole answer of one attempt: nothing doubled, missing, changed or mixed.
 * I2  Anything else ends visibly, and what went out before is the beginning of an answer. A call in it only without a hold.
 * I3  If one attempt alone reached the client, its frames are unchanged.
 */
import { apiOf } from './apis.ts'
import { awsFramesIn } from './bedrock.ts'
import type { RelayApiName } from '@breakfall/model'
import { type Case, EXACT, type Frame, type Json } from './case.ts'
import type { Reply } from './client.ts'
import { objectIn, objectsIn, parsed, textIn } from './json.ts'
import { isBeginning, type Said, type SaidPiece, type Signature } from './said.ts'
import { deliveredFrames, type Sending } from './upstream.ts'
import { framesIn } from './wire.ts'

/** Of the gateways. */
export const ATTEMPTS_MAX = 4

/** One response of the upstream, and what it says when it is not cut. */
export type Sent = {
  readonly sending: Sending
  readonly truth: Said
  /** All frames of the answer. */
  readonly frames: readonly Frame[]
  /** A second connection to the same answer. */
  readonly isReadOn?: boolean
}

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
    // The machine may pause for longer than this, also in an attempt that would have been whole.
    if (made.setting.limit === 'silence 60 ms') return { end: 'refused' }
    const isWhole = ({ sending, truth }: Sent): boolean =>
      sending.cut === undefined && (sending.status ?? 200) === 200 && !endsInUnwrittenCall(truth)
    // It is asked for again once, unless no attempt is left; at the token limit it may be cut.
    const isDoubted = (one: Sent, at: number): boolean => {
      const before = sent[at - 1]
      const isSame = (doubt: (said: Said) => boolean): boolean =>
        before !== undefined && isWhole(before) && doubt(before.truth)
      if (lacks(made, one.truth)) return isShort(one.truth) || !isSame((said) => lacks(made, said))
      return isEmpty(one.truth) && at + 1 < ATTEMPTS_MAX && !isSame(isEmpty)
    }
    const whole = sent.findIndex((one, at) => isWhole(one) && !isDoubted(one, at))
    return whole === -1
      ? { end: 'refused' }
      : wrong(
          'whole answer refused',
          `attempt ${whole + 1} was whole, the client got ${reply.status}: ${reply.body.toString().slice(0, 300)}`,
        )
  }
  const frames = framesOf(made, reply)
  if (frames === undefined) return wrong('protocol', `not an array: ${reply.body.toString().slice(-300)}`)
  const notJson = frames.find(({ data }) => data !== '[DONE]' && !isJson(data))
  if (notJson !== undefined) return wrong('not JSON', notJson.data.slice(0, 300))
  const said = api.read(frames)
  const [problem] = said.problems
  if (problem !== undefined) return wrong(`protocol: ${problem.replace(/ ?[\d_{[:].*$/s, '')}`, problem)
  const proven = sent.filter(({ sending, truth }) => {
    const isWhole = sending.cut === undefined && sending.status === undefined
    return isWhole ? truth.isProven : api.read(deliveredFrames(sending)).isProven
  })
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
  const { hold, limit } = made.setting
  const isHeld = limit === undefined && (hold === 'answer' || (hold === 'auto' && made.body['tools'] !== undefined))
  const truths = sent.map(({ truth }) => truth)
  const differences = proven.map((one) => {
    // Of a held answer, the client got nothing before.
    const earlier = isHeld ? [] : sent.slice(0, sent.indexOf(one))
    const before = earlier.map(({ sending }) => ({
      said: api.read(deliveredFrames(sending)),
      // A reset may overtake what was sent, and what is compressed cannot be read up to the last byte.
      isCertain: sending.cut?.how !== 'reset' && sending.style.encoding === '',
    }))
    return differenceOf(said, one.truth, { truths, before }, made.api)
  })
  const matches = proven.filter((_, at) => differences[at] === undefined)
  if (matches.length === 0) {
    const difference = differences.at(-1)
    return wrong(difference?.kind ?? 'mixed', difference?.detail ?? '')
  }
  // From a document, also that of a background response, the gateway makes frames itself.
  const isStreamed = matches.every(({ sending }) => sending.whole === undefined) && made.body['background'] !== true
  if (isStreamed && (sent.length === 1 || isHeld)) {
    const changes = matches.map((match) => changedFrame(frames, match.frames))
    if (changes.every((change) => change !== undefined)) return wrong('changed frame', changes.at(-1) ?? '') // I3
  }
  return { end: sent.length > 1 ? 'healed' : 'accepted' }
}

/** Undefined if it is not what the API promises. */
export function framesOf(made: Case, { body }: Reply): readonly Frame[] | undefined {
  const { shape } = apiOf(made.api)
  if (shape === 'aws') return awsFramesIn(body)
  if (shape === 'lines') return linesIn(body)
  return isArray(made) ? elementsIn(body) : framesIn(body).frames
}

export const shown = ({ pieces, finish, usage }: Said): string => JSON.stringify({ pieces, finish, usage })

// ---- details ----

/** The token limit may have cut the arguments of its last call before they began: then it must not reach a client. */
function endsInUnwrittenCall({ pieces, finish }: Said): boolean {
  return finish.some((reason, lane) => {
    const last = pieces.findLast((piece) => piece.lane === lane && piece.kind === 'call')
    return AT_LIMIT.has(reason) && last?.kind === 'call' && (last.args === '' || last.args === '{}')
  })
}

/** A call does not have what its tool requires. */
const lacks = ({ body }: Case, { pieces }: Said): boolean =>
  JSON.stringify(body['tools'] ?? []).includes('"required":["k0"]') &&
  pieces.some((piece) => piece.kind === 'call' && piece.name === 'ls' && !piece.args.includes('"k0"'))

/** Nothing but thoughts, or blank text. */
const isEmpty = ({ pieces }: Said): boolean =>
  pieces.every(
    (piece) =>
      piece.kind === 'thought' ||
      piece.kind === 'opaque' ||
      piece.kind === 'item' ||
      (piece.kind === 'text' && piece.text.trim() === ''),
  )

const isShort = ({ finish }: Said): boolean => finish.some((reason) => AT_LIMIT.has(reason))

const AT_LIMIT: ReadonlySet<unknown> = new Set(['length', 'max_tokens', 'incomplete', 'MAX_TOKENS'])

/** What every attempt means, and what those before the one in question delivered. */
type Attempts = { readonly truths: readonly Said[]; readonly before: readonly Delivered[] }

/** `isCertain`: all of it arrived. */
type Delivered = { readonly said: Said; readonly isCertain: boolean }

function differenceOf(got: Said, truth: Said, attempts: Attempts, api: RelayApiName): Wrong | undefined {
  const mine = got.pieces.filter((piece) => !isForeign(piece, truth, attempts.truths))
  const lists = [mine, truth.pieces] as const
  for (const kind of ['text', 'thought', 'refusal', 'call', 'opaque', 'item'] as const) {
    const [a, b] = lists.map((pieces) => JSON.stringify(joined(pieces.filter((piece) => piece.kind === kind))))
    if (a !== b) return { kind: `${kind} differs`, detail: `the client has ${a}, the answer is ${b}` }
  }
  const [a, b] = lists.map((pieces) => JSON.stringify(joined(pieces.filter(({ kind }) => kind !== 'item'))))
  if (a !== b) return { kind: 'order differs', detail: `${a} instead of ${b}` }
  const [finish, wanted] = [JSON.stringify(got.finish), JSON.stringify(truth.finish)]
  if (finish !== wanted) return { kind: 'finish differs', detail: `${finish} instead of ${wanted}` }
  const [usage, promised] = [JSON.stringify(got.usage), JSON.stringify(truth.usage)]
  // A client that waits for the end marker is not told that this is all.
  if (usage === undefined && promised !== undefined && api === 'openai-chat' && !got.isComplete) return undefined
  if (usage !== promised)
    return { kind: usage === undefined ? 'usage lost' : 'usage differs', detail: `${usage} instead of ${promised}` }
  return signatureDifference(got, truth, attempts, api)
}

/** Thoughts and searches of a Responses answer are separate items, and each attempt may add some. */
function isForeign(piece: SaidPiece, truth: Said, all: readonly Said[]): boolean {
  if (piece.kind !== 'item') return false
  const has = (said: Said): boolean => said.pieces.some((one) => one.kind === 'item' && one.id === piece.id)
  return (
    !has(truth) &&
    all.some(
      (said) => said.pieces.some((one) => one.kind === 'item' && (one.json === piece.json || piece.isCut)) && has(said),
    )
  )
}

/**
 * The same words may carry the signature of any attempt that said them; without one they carry none. What another attempt signs
 * behind words that the client has can come later in the same text, but not once the client has what follows that text. Then the
 * text keeps the signature that it has, or has none. Gemini takes that in the next request: it demands the signatures of calls,
 * and a call goes out whole, with its own.
 */
function signatureDifference(
  got: Said,
  truth: Said,
  { truths, before }: Attempts,
  api: RelayApiName,
): Wrong | undefined {
  const given = truths.flatMap(({ signatures }) => signatures)
  // A part of Gemini may carry the signature of text that another attempt has sent already.
  // A client of the chat API collects them beside the text, so one may come after it.
  const isPlace = (at: string, place: string): boolean =>
    at === place || (api === 'gemini' && isInStretch(at, place, truth)) || (api === 'openai-chat' && isLater(at, place))
  for (const { at, value } of got.signatures)
    if (!given.some((one) => one.value === value && isPlace(at, one.at)))
      return { kind: 'signature moved', detail: `${value} at ${at}, where no attempt has it` }
  for (const { at, value } of truth.signatures) {
    const passed = api === 'gemini' ? passings(at, truth, before) : []
    if (passed.some((places) => places.length === 0)) continue
    const isAnywhere = passed.some((places) => !places.includes(at))
    const isThere = (one: Signature): boolean =>
      isInStretch(one.at, at, truth, isAnywhere) || (api === 'openai-chat' && isLater(one.at, at))
    if (!got.signatures.some(isThere)) return { kind: 'signature lost', detail: `${value} at ${at}` }
  }
  return undefined
}

function isLater(at: string, place: string): boolean {
  const [[lane, size = 0], [wanted, from = 0]] = [at.split(':').map(Number), place.split(':').map(Number)]
  return lane === wanted && size >= from
}

/**
 * For each attempt that may have been the first to give the client what follows the text with this place: where that text had
 * been signed by then. None at a call.
 */
function passings(at: string, truth: Said, before: readonly Delivered[]): readonly (readonly string[])[] {
  const found: string[][] = []
  const signed: string[] = []
  if (isCallAt(truth, at)) return found
  for (const { said, isCertain } of before) {
    const places = said.signatures.map((one) => one.at).filter((place) => isInStretch(place, at, truth, true))
    const isPassing = isBeginning(said, truth) && isBehind(said, at, truth)
    if (isPassing) found.push([...signed, ...places])
    if (isPassing && isCertain) break
    if (isCertain) signed.push(...places)
  }
  return found
}

/** Another attempt may have cut the same words into other parts: at the place itself or later in the same text, or anywhere in it. */
function isInStretch(place: string, wanted: string, truth: Said, isAnywhere = false): boolean {
  const [[lane, size], [wantedLane, wantedSize]] = [place.split(':').map(Number), wanted.split(':').map(Number)]
  if (lane === undefined || size === undefined || wantedSize === undefined || lane !== wantedLane) return false
  const { from, to } = stretchAt(truth, lane, wantedSize)
  return (isAnywhere ? size > from : size >= wantedSize) && size <= to
}

/** More was said than the text with this place in it. */
function isBehind({ pieces }: Said, wanted: string, truth: Said): boolean {
  const [lane = 0, size = 0] = wanted.split(':').map(Number)
  return (
    pieces.filter((one) => one.lane === lane).reduce((sum, one) => sum + sizeOf(one), 0) >
    stretchAt(truth, lane, size).to
  )
}

function isCallAt(truth: Said, at: string): boolean {
  const [lane = 0, size = 0] = at.split(':').map(Number)
  return stretchAt(truth, lane, size).kind === 'call'
}

type Stretch = { readonly kind: SaidPiece['kind'] | undefined; readonly from: number; readonly to: number }

/** The text or call that has this place, by the places of its ends. */
function stretchAt({ pieces }: Said, lane: number, place: number): Stretch {
  let [from, to] = [0, 0]
  for (const piece of pieces.filter((one) => one.lane === lane)) {
    const { kind } = piece
    ;[from, to] = [to, to + sizeOf(piece)]
    if (to >= place) return { kind, from, to }
  }
  return { kind: undefined, from, to }
}

const sizeOf = (piece: SaidPiece): number => ('text' in piece ? piece.text.length : piece.kind === 'call' ? 1 : 0)

/** Neighbouring texts of one kind are one. */
function joined(pieces: readonly SaidPiece[]): readonly SaidPiece[] {
  const out: SaidPiece[] = []
  for (const piece of pieces) {
    const last = out.at(-1)
    if (last !== undefined && 'text' in last && 'text' in piece && last.kind === piece.kind && last.lane === piece.lane)
      out[out.length - 1] = { ...last, text: last.text + piece.text }
    else if (!('text' in piece) || piece.text !== '') out.push(piece)
  }
  return out
}

const isArray = ({ api, path }: Case): boolean => api === 'gemini' && !path.includes('alt=sse')

/** The elements of a JSON array that may be cut off; undefined if it is no array. */
function elementsIn(body: Buffer): readonly Frame[] | undefined {
  const text = body.toString()
  try {
    const all: unknown = JSON.parse(text)
    return Array.isArray(all) ? wholeObjectsIn(text) : undefined
  } catch {
    return text.trimStart().startsWith('[') || text.trim() === '' ? wholeObjectsIn(text) : undefined // cut off
  }
}

/** The lines of a body up to the cut. */
const linesIn = (body: Buffer): readonly Frame[] =>
  body
    .toString()
    .split('\n')
    .slice(0, -1)
    .map((data) => ({ data }))

/** The objects of an array up to where it was cut. */
function wholeObjectsIn(text: string): readonly Frame[] {
  const found: Frame[] = []
  let [depth, from] = [0, 0]
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}]/gs)) {
    if (token === '{' && depth++ === 0) from = index
    if (token === '}' && --depth === 0) found.push({ data: text.slice(from, index + 1) })
  }
  return found
}

function isJson(data: string): boolean {
  try {
    return typeof JSON.parse(data) === 'object'
  } catch {
    return false // the element that was cut
  }
}

/**
 * Numbers, indexes and ids may be filled in, and the gateway's own signs of life added. Everything else is unchanged, but for this:
 * where events of Responses have to be numbered, those that differ only in their text may become one.
 */
function changedFrame(got: readonly Frame[], sent: readonly Frame[]): string | undefined {
  let at = 0
  let isNumbered = sent.some(({ event, data }) => event?.startsWith('response.') && !data.includes('"sequence_number"'))
  for (const frame of got) {
    const wanted = sent[at]
    const count = isSame(frame, wanted) ? 1 : isNumbered ? joinedIn(frame, sent.slice(at)) : 0
    if (count > 0) at += count
    else if (isPing(frame)) isNumbered = true
    else return `frame ${at + 1} is ${frame.data} instead of ${wanted?.data ?? 'none'}`
  }
  return undefined // without its last frames, a proven answer is the same answer
}

/** How many of these events, one after the other, are this one. */
function joinedIn(frame: Frame, sent: readonly Frame[]): number {
  const { obfuscation } = parsed(frame.data)
  let text = ''
  for (const [at, one] of sent.entries()) {
    const json = parsed(one.data)
    text += textIn(json, 'delta')
    if (one.event !== frame.event || !textIn(parsed(frame.data), 'delta').startsWith(text)) return 0
    if (isSame(frame, { ...one, data: JSON.stringify({ ...json, delta: text, obfuscation }) })) return at + 1
  }
  return 0
}

const isPing = ({ event }: Frame): boolean => event === 'ping' || event === 'response.in_progress'

function isSame(got: Frame, sent: Frame | undefined): boolean {
  if (sent === undefined || got.event !== sent.event) return false
  if (got.data === sent.data) return true
  if (sent.data.includes(EXACT) !== got.data.includes(EXACT)) return false
  if (sent.data === '[DONE]' || got.data === '[DONE]') return false
  const [mine, theirs] = [parsed(got.data), parsed(sent.data)]
  return Object.entries(theirs).every(
    ([key, value]) =>
      key === 'sequence_number' ||
      JSON.stringify(mine[key]) === JSON.stringify(value) ||
      (key === 'response' && isEmptyOutput(objectIn(theirs, key))),
  )
}

const isEmptyOutput = (response: Json): boolean => objectsIn(response, 'output').length === 0
