/** Gateways as programs start them, one for each setting, in front of one upstream; and runs of cases through them. */
import { type Gateway, startGateway } from '@breakfall/gateway'
import { apiOf } from './apis.ts'
import { type Case, PLAIN, type Script, type Setting } from './case.ts'
import { Client, type Reply } from './client.ts'
import { ATTEMPTS_MAX, judge, type Sent, type Verdict } from './oracle.ts'
import { objectIn, parsed } from './json.ts'
import { textOf } from './said.ts'
import { type Asked, isPrefilled, type Sending, STREAM_ID, Upstream } from './upstream.ts'
import { encoded } from './wire.ts'

export type Run = {
  readonly made: Case
  readonly sent: readonly Sent[]
  readonly reply: Reply
  readonly verdict: Verdict
}

export class Rig implements AsyncDisposable {
  readonly #plain = new Upstream()
  /** Compressing is a habit of a server, which the gateway remembers. */
  readonly #compressing = new Upstream()
  readonly #gateways = new Map<string, Promise<Gateway>>()
  readonly #client = new Client()
  #streams = 0
  #isKnown: Promise<void> | undefined

  static async start(): Promise<Rig> {
    const rig = new Rig()
    await Promise.all([rig.#plain.listen(), rig.#compressing.listen()])
    return rig
  }

  /** `spoil` changes what the client got before it is judged, to see whether the judge notices. */
  async run(made: Case, spoil?: (reply: Reply) => Reply): Promise<Run> {
    const id = `s${++this.#streams}`
    const upstream = made.setting.isCompressed === true ? this.#compressing : this.#plain
    const exchange = new Exchange(made)
    const { sent } = exchange
    upstream.serve(id, (asked) => exchange.answer(asked))
    try {
      const gateway = await this.#gateway(made.setting, upstream)
      if (made.setting.isCompressed === true) await (this.#isKnown ??= this.#announce(gateway.port))
      const got = await this.#client.ask(gateway.port, made.path, JSON.stringify(made.body), { [STREAM_ID]: id })
      const reply = spoil?.(got) ?? got
      return { made, sent, reply, verdict: judge(made, sent, reply) }
    } finally {
      upstream.forget(id)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.close()
    this.#plain.close()
    this.#compressing.close()
    await Promise.all([...this.#gateways.values()].map(async (gateway) => (await gateway).close()))
  }

  /** A gateway refuses the first compressed answer of a server, which was asked not to compress, and reads all later ones. */
  async #announce(port: number): Promise<void> {
    const frames = [{ data: '[DONE]' }]
    this.#compressing.serve('first', () => ({ frames, style: { ...PLAIN, encoding: 'gzip' } }))
    await this.#client.ask(port, '/v1/chat/completions', '{"stream":true}', { [STREAM_ID]: 'first' })
    this.#compressing.forget('first')
  }

  #gateway(setting: Setting, upstream: Upstream): Promise<Gateway> {
    const key = JSON.stringify(setting)
    const known = this.#gateways.get(key)
    if (known !== undefined) return known
    const { hold, profile, limit } = setting
    const silence = limit === 'silence 60 ms' ? { livenessMs: 60 } : {}
    const made = startGateway({
      upstream: { url: `http://127.0.0.1:${upstream.port}/v1`, profile },
      hold,
      logger: false,
      dice: () => 0,
      policy: { attemptsMax: ATTEMPTS_MAX, patienceMs: 0, backoffMs: 0, ...silence },
      limits: { ...UNHURRIED, ...(limit === undefined ? {} : LIMITS[limit]) },
    })
    this.#gateways.set(key, made)
    return made
  }
}

/** On a busy machine there would be pings, and answers that are held too long, which change what the client gets. */
const UNHURRIED = { pingMs: 3_600_000, holdMs: 3_600_000 }

const LIMITS: Readonly<Record<NonNullable<Setting['limit']>, object>> = {
  'hold 0 ms': { holdMs: 0 },
  'hold 6000 bytes': { holdBytesMax: 6_000 },
  'ping 2 ms': { pingMs: 2 },
  'silence 60 ms': {},
}

/** What one client's request makes the upstream send, request after request. */
class Exchange {
  readonly sent: Sent[] = []
  readonly #made: Case
  /** How often each background response was read on, and asked for as a document. */
  readonly #readOn = new Map<string, { streams: number; polls: number }>()

  constructor(made: Case) {
    this.#made = made
  }

  answer(asked: Asked): Sending | undefined {
    if (asked.method === 'GET') return this.#rest(asked)
    if (asked.path.endsWith('/cancel')) return undefined
    const next = nextAnswer(this.#made, asked, this.sent)
    this.sent.push(next)
    return next.sending
  }

  /** Frames after a number, or the whole document. */
  #rest({ path }: Asked): Sending | undefined {
    const [, id = '', after] = /responses\/([^?/]+)(?:\?.*starting_after=(\d+))?/.exec(path) ?? []
    const known = this.sent.findLast(({ frames }) =>
      frames.some(({ data }) => objectIn(parsed(data), 'response')['id'] === id),
    )
    const script = this.#made.attempts.find(({ frames }) => frames === known?.frames)
    if (known === undefined || script?.background === undefined) return undefined
    const { cuts, isTooOld, polls } = script.background
    const asked = this.#readOn.get(id) ?? { streams: 0, polls: 0 }
    this.#readOn.set(id, asked)
    const { frames, sending } = known
    const style = { ...sending.style, extras: [], bom: false }
    if (after === undefined) {
      const last = objectIn(parsed(frames.at(-1)?.data ?? '{}'), 'response')
      const done = frames.flatMap(({ event, data }) => (event === 'response.output_item.done' ? [parsed(data)] : []))
      const items = done
        .toSorted((one, other) => Number(one['output_index']) - Number(other['output_index']))
        .map((json) => objectIn(json, 'item'))
      if (asked.polls++ < polls) return { frames: [], style, whole: { ...last, status: 'in_progress', output: [] } }
      this.sent.push({ ...known, sending: { frames, style }, isReadOn: true })
      return { frames: [], style, whole: { ...last, output: items } }
    }
    if (isTooOld)
      return {
        frames: [],
        style,
        status: 400,
        message: 'This response can no longer be streamed because it is more than 5 minutes old.',
      }
    const rest = frames.slice(Number(after) + 1)
    const to = cuts[asked.streams++]
    const cut =
      to === undefined
        ? {}
        : { cut: { how: 'fin' as const, at: encoded(rest, style).starts[Math.max(0, to - Number(after) - 1)] ?? 0 } }
    const reading = { frames: rest, style, ...cut }
    this.sent.push({ ...known, sending: reading, isReadOn: true })
    return reading
  }
}

function nextAnswer({ api: name, attempts }: Case, asked: Asked, before: readonly Sent[]): Sent {
  const script = attempts[Math.min(before.filter(({ isReadOn }) => isReadOn !== true).length, attempts.length - 1)]
  if (script === undefined) throw new Error('a case has at least one attempt')
  const api = apiOf(name)
  const truth = api.read(script.frames)
  const prefill = isPrefilled(asked.body)
  if (prefill === undefined || api.continued === undefined) return { sending: script, truth, frames: script.frames }
  if (script.onPrefill === 'refuse') return { sending: { ...script, status: 400 }, truth, frames: script.frames }
  const text = textOf(truth, 'text', 0)
  if (script.onPrefill === 'start like it' && text.startsWith(prefill)) {
    // Another answer whose first words are those that a continuation would begin with.
    const frames = api.continued(truth, `${/^(?:\s*\S+){1,3}/.exec(text.slice(prefill.length))?.[0] ?? ''} but no.`)
    return { sending: continuation(script, frames), truth: api.read(frames), frames }
  }
  if (script.onPrefill !== undefined) return { sending: script, truth, frames: script.frames }
  const rest = text.startsWith(prefill) ? text.slice(prefill.length) : ` ${text}`
  const frames = api.continued(truth, rest)
  const said = api.read(frames)
  const whole = api.read(api.continued(truth, prefill + rest))
  return { sending: continuation(script, frames), truth: { ...said, pieces: whole.pieces }, frames }
}

/** Sent as the script says, but for what is about bytes of other frames. */
function continuation({ style }: Script, frames: Sending['frames']): Sending {
  return { frames, style: { ...style, extras: [] } }
}
