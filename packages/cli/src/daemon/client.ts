/**
 * A daemon over its own API: calls, and a session's events that go on over cuts and restarts by cursor.
 * Every failure is a Fault: the daemon's own, or `daemon_unreachable`.
 */
import { randomUUIDv7 } from 'node:crypto'
import { classify, Fault, isFault, POLICY_DEFAULTS, retrying } from '@breakfall/faults'
import {
  type Session,
  type SessionCreate,
  type SessionEvent,
  SseDecoder,
  type SseFrame,
  type Turn,
} from '@breakfall/wire'

export type DaemonAddress = {
  readonly url: string
  readonly token: string
  /** Where the token came from, for whoever has to mend it. */
  readonly tokenFrom?: string | undefined
  /** It belongs to a run, and ends when nobody needs it any more. */
  readonly untilIdle?: boolean | undefined
}

export type Receipt = { readonly turnId: string; readonly seq: number }

export type EventsOptions = {
  readonly after?: string | number | undefined
  readonly signal?: AbortSignal | undefined
  /** The daemon does not answer any more. Said once, until it does again. */
  readonly onAway?: ((url: string) => void) | undefined
}

/** Asked before each new try: where the daemon is now. May start one. */
export type Recover = (fault: Fault) => Promise<DaemonAddress>

export class DaemonClient {
  #address: DaemonAddress
  readonly #recover: Recover | undefined
  #goesOnWith: string | undefined
  #isAnother = false

  /** With `recover` a call to a daemon that is away is made again where it is then; without, it fails at once. */
  constructor(address: DaemonAddress, recover?: Recover) {
    this.#address = address
    this.#recover = recover
  }

  get url(): string {
    return this.#address.url
  }

  get address(): DaemonAddress {
    return this.#address
  }

  /** Whom it asks for answers. */
  model(): Promise<{ readonly name: string; readonly baseUrl: string }> {
    return this.#call('GET', '/v1/model')
  }

  createSession(create: SessionCreate): Promise<Session> {
    return this.#call('POST', '/v1/sessions', create)
  }

  session(id: string): Promise<Session> {
    return this.#call('GET', `/v1/sessions/${encodeURIComponent(id)}`)
  }

  async sessions(): Promise<readonly Session[]> {
    const all: Session[] = []
    let cursor: string | undefined
    do {
      const query: string = cursor === undefined ? '' : `?cursor=${encodeURIComponent(cursor)}`
      const page: { sessions: Session[]; next?: string } = await this.#call('GET', `/v1/sessions${query}`)
      all.push(...page.sessions)
      cursor = page.next
    } while (cursor !== undefined)
    return all
  }

  removeSession(id: string): Promise<void> {
    return this.#call('DELETE', `/v1/sessions/${encodeURIComponent(id)}`)
  }

  /** The key makes a repeated call the same turn, so it is safe to repeat over a cut connection. */
  prompt(sessionId: string, prompt: string, options: { key?: string; queue?: boolean } = {}): Promise<Receipt> {
    const body = options.queue === true ? { prompt, queue: true } : { prompt }
    return this.#call('POST', `/v1/sessions/${encodeURIComponent(sessionId)}/turns`, body, {
      'idempotency-key': options.key ?? randomUUIDv7(),
    })
  }

  turn(id: string): Promise<Turn> {
    return this.#call('GET', `/v1/turns/${encodeURIComponent(id)}`)
  }

  cancel(turnId: string, reason?: string): Promise<Turn> {
    return this.#call('POST', `/v1/turns/${encodeURIComponent(turnId)}/cancel`, reason === undefined ? {} : { reason })
  }

  resume(turnId: string): Promise<Turn> {
    return this.#call('POST', `/v1/turns/${encodeURIComponent(turnId)}/resume`, {})
  }

  /** From now on a daemon that stands in for one that was lost is asked to go on with this turn, unless it does already. */
  goesOnWith(turnId: string): void {
    this.#goesOnWith = turnId
  }

  /** Replay, then live. After a cut it continues with the next event; throws a Fault when the daemon stays away. */
  async *events(sessionId: string, options: EventsOptions = {}): AsyncGenerator<SessionEvent> {
    const { signal, onAway } = options
    let cursor = options.after === undefined ? undefined : String(options.after)
    let failed: Fault | undefined
    try {
      while (signal?.aborted !== true) {
        const frames = await retrying(() => begun(this.#frames(sessionId, cursor, signal)), {
          policy: RECONNECT,
          signal,
          failed,
          onRetry: ({ attempt }) => {
            if (attempt === AWAY_ATTEMPT) onAway?.(this.#address.url)
          },
          beforeRetry: (fault) => this.#move(fault),
          faultOf: (thrown) => this.#faultOf(thrown),
        })
        failed = undefined
        try {
          for await (const frame of frames) {
            if (frame.id === undefined) continue // `reset`: the replay from the start follows, and its seqs say so
            cursor = frame.id
            yield JSON.parse(frame.data) as SessionEvent
          }
        } catch (thrown) {
          failed = this.#faultOf(thrown)
        }
      }
    } catch (thrown) {
      if (signal?.aborted !== true) throw thrown
    }
  }

  #faultOf(thrown: unknown): Fault {
    return isFault(thrown) ? thrown : classify(thrown, { boundary: 'daemon', address: this.#address.url })
  }

  async #move(fault: Fault): Promise<void> {
    const { url } = this.#address
    this.#address = (await this.#recover?.(fault)) ?? this.#address
    this.#isAnother ||= this.#address.url !== url
    if (!this.#isAnother || this.#goesOnWith === undefined) return
    try {
      await takeUp(new DaemonClient(this.#address), this.#goesOnWith)
      this.#isAnother = false
    } catch (thrown) {
      if (!isFault(thrown)) throw thrown // a fault is met again by whoever moved here, who knows whether to try again
    }
  }

  async *#frames(
    sessionId: string,
    cursor: string | undefined,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<SseFrame> {
    const path = `/v1/sessions/${encodeURIComponent(sessionId)}/events`
    const response = await this.#fetch(
      'GET',
      path,
      undefined,
      { accept: 'text/event-stream', ...(cursor === undefined ? {} : { 'last-event-id': cursor }) },
      signal,
    )
    const ready: SseFrame[] = []
    const decoder = new SseDecoder({ onEvent: (frame) => void ready.push(frame) })
    for await (const chunk of response.body ?? []) {
      decoder.push(chunk)
      yield* ready.splice(0)
    }
  }

  /** Each of them may be made twice: by its key, by its nature, or since a session without a turn is no harm. */
  async #call<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
    const once = async (): Promise<T> => {
      const response = await this.#fetch(method, path, body, headers)
      const text = await response.text()
      return (text === '' ? undefined : JSON.parse(text)) as T
    }
    return this.#recover === undefined
      ? once()
      : retrying(once, { policy: RECONNECT, beforeRetry: (fault) => this.#move(fault) })
  }

  async #fetch(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
    signal?: AbortSignal,
  ): Promise<Response> {
    const { url, token } = this.#address
    let response: Response
    try {
      response = await fetch(url + path, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(signal === undefined ? {} : { signal }),
      })
    } catch (thrown) {
      throw noLoopback(thrown, url) ?? classify(thrown, { boundary: 'daemon', address: url, signal })
    }
    if (response.ok) return response
    const fault = classify(undefined, {
      boundary: 'daemon',
      address: url,
      response: { status: response.status, headers: response.headers, body: await bodyOf(response) },
    })
    throw response.status === 401 ? fault.with({ error: refused(this.#address) }) : fault
  }
}

/** Asks for a turn that nobody works on. */
async function takeUp(client: DaemonClient, turnId: string): Promise<void> {
  const turn = await client.turn(turnId)
  if (turn['live'] === false) await client.resume(turnId)
}

// ---- details ----

/** Waits for the first event: a connection that closes before that is a failed attempt. */
async function begun(frames: AsyncGenerator<SseFrame>): Promise<AsyncIterable<SseFrame>> {
  const first = await frames.next()
  if (first.done === true) throw new Fault('daemon_unreachable', { errorRaw: 'the event stream ended at once' })
  return (async function* () {
    yield first.value
    yield* frames
  })()
}

/** About half a minute of tries, which a restart by a service manager fits into. */
const RECONNECT = { ...POLICY_DEFAULTS, attemptsMax: 12, backoffMs: 250, waitMsMax: Infinity } as const

/** A stream may be cut for many reasons; where the next one does not even begin the daemon is away. */
const AWAY_ATTEMPT = 2

/** A machine that has no way to itself has it down: no try and no other daemon would help. */
function noLoopback(thrown: unknown, url: string): Fault | undefined {
  const { cause } = thrown as { readonly cause?: NodeJS.ErrnoException }
  if (cause?.code !== 'ENETUNREACH' || !/^http:\/\/(?:127\.|localhost|\[::1\])/.test(url)) return undefined
  return new Fault('daemon_unreachable', {
    error: `the daemon at ${url} cannot be reached: this machine's loopback interface is down; bring it up (ip link set lo up)`,
    next: 'never',
    cause,
  })
}

const refused = ({ url, tokenFrom = 'its token file' }: DaemonAddress): string =>
  `the daemon at ${url} does not accept the token from ${tokenFrom}; it has another one since it started: restart it, or give the right one`

async function bodyOf(response: Response): Promise<unknown> {
  const text = await response.text()
  try {
    return JSON.parse(text)
  } catch {
    return text // not JSON: kept as it is for the raw error
  }
}
