/** Gateways as programs start them, one for each setting, in front of one upstream; and runs of cases through them. */
import { type Gateway, startGateway } from '@breakfall/gateway'
import { apiOf } from './apis.ts'
import type { Case, Script, Setting } from './case.ts'
import { Client, type Reply } from './client.ts'
import { judge, type Sent, type Verdict } from './oracle.ts'
import { textOf } from './said.ts'
import { type Asked, isPrefilled, type Sending, STREAM_ID, Upstream } from './upstream.ts'

export const ATTEMPTS_MAX = 4

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

  static async start(): Promise<Rig> {
    const rig = new Rig()
    await Promise.all([rig.#plain.listen(), rig.#compressing.listen()])
    return rig
  }

  /** `spoil` changes what the client got before it is judged, to see whether the judge notices. */
  async run(made: Case, spoil?: (reply: Reply) => Reply): Promise<Run> {
    const id = `s${++this.#streams}`
    const upstream = made.setting.isCompressed === true ? this.#compressing : this.#plain
    const sent: Sent[] = []
    upstream.serve(id, (asked) => {
      const answer = nextAnswer(made, asked, sent)
      sent.push(answer)
      return answer.sending
    })
    try {
      const gateway = await this.#gateway(made.setting, upstream)
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
      limits: limit === undefined ? {} : (LIMITS[limit] ?? {}),
    })
    this.#gateways.set(key, made)
    return made
  }
}

const LIMITS: Readonly<Record<NonNullable<Setting['limit']>, object>> = {
  'hold 0 ms': { holdMs: 0 },
  'hold 300 bytes': { holdBytesMax: 300 },
  'ping 2 ms': { pingMs: 2 },
  'silence 60 ms': {},
}

function nextAnswer({ api: name, attempts }: Case, asked: Asked, before: readonly Sent[]): Sent {
  const script = attempts[Math.min(before.length, attempts.length - 1)]
  if (script === undefined) throw new Error('a case has at least one attempt')
  const api = apiOf(name)
  const truth = api.read(script.frames)
  const prefill = isPrefilled(asked.body)
  if (prefill === undefined || api.continued === undefined) return { sending: script, truth, isContinuation: false }
  if (script.onPrefill === 'refuse') return { sending: { ...script, status: 400 }, truth, isContinuation: false }
  if (script.onPrefill !== undefined) return { sending: script, truth, isContinuation: false }
  const text = textOf(truth, 'text', 0)
  const rest = text.startsWith(prefill) ? text.slice(prefill.length) : ` ${text}`
  const frames = api.continued(truth, rest)
  const said = api.read(frames)
  const whole = api.read(api.continued(truth, prefill + rest))
  return { sending: continuation(script, frames), truth: { ...said, pieces: whole.pieces }, isContinuation: true }
}

/** Sent as the script says, but for what is about bytes of other frames. */
function continuation({ style }: Script, frames: Sending['frames']): Sending {
  return { frames, style: { ...style, extras: [] } }
}
