/**
 * A response that was asked for with `background: true`: the provider keeps generating when the connection breaks, so the rest is
 * read instead of asked for again.
 *
 * I1  Only if someone asked for it, the gateway's client or the config: background generations are stored at the provider and
 *     billed to their end.
 * I2  A response without a reader is cancelled, once.
 */
import { type Policy, sleep } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import type { Verdict } from '../dialects/proof.ts'
import type { StreamPosition } from '../dialects/read-answer.ts'
import { wholeJson } from '../dialects/whole-answer.ts'
import { isObject, type JsonObject, objectOr, parsedOr, stringOr } from '../lib/json.ts'
import type { MemoryShare } from '@breakfall/wire/node'
import { joinUrl } from './target.ts'
import type { Attempt, AttemptEnd, AttemptReader, AttemptRequest } from './attempt.ts'
import { startAttempt } from './start-attempt.ts'

export type BackgroundOptions = {
  readonly baseUrl: string
  readonly headers: Readonly<Record<string, string>>
  readonly policy: Policy
  readonly signal: AbortSignal
  readonly now: () => number
  /** For the document that is read instead of events. */
  readonly memory: MemoryShare
}

/** The attempt that reads on. */
export type BackgroundReader = AttemptReader & {
  /** Undefined until the server has named the response. */
  readonly position: StreamPosition | undefined
  /** Neither the server nor a comparison said that this answer is of no use. */
  readonly isOnlyCut: boolean
  reading(connection: Pick<Attempt, 'pause' | 'resume'>): void
  endedWith(end: AttemptEnd): Verdict
  /** The events are gone, but the whole answer is there. */
  finishedBy(frames: readonly SseFrame[]): Verdict
}

/** What asking for the rest led to: the stream was read on, the final object came instead, or neither can be had. */
type Rest = { readonly end: AttemptEnd } | { readonly final: JsonObject } | 'gone'

const POLL_MS_MAX = 5_000
const CANCEL_MS = 10_000

export class BackgroundResponse {
  readonly #options: BackgroundOptions
  #isCancelled = false

  constructor(options: BackgroundOptions) {
    this.#options = options
  }

  /** Reads on until the answer is whole or cannot be had. `times`: how often it re-attached. */
  async readOn(broken: Verdict, reader: BackgroundReader): Promise<{ verdict: Verdict; times: number }> {
    const { policy, signal } = this.#options
    let [verdict, times, seen] = [broken, 0, -1]
    // A server that has nothing new to say is not asked again.
    while (reader.position !== undefined && reader.isOnlyCut && !signal.aborted && reader.progress !== seen) {
      seen = reader.progress
      await sleep(policy.backoffMs, signal)
      times++
      const rest = await this.#rest(reader.position, reader)
      if (rest === 'gone') break
      verdict = 'end' in rest ? reader.endedWith(rest.end) : reader.finishedBy(reader.position.rest(rest.final))
      if (verdict.complete) return { verdict, times }
    }
    if (reader.position !== undefined && reader.isOnlyCut) this.#cancel(reader.position)
    return { verdict, times }
  }

  // ---- details ----

  /** Reads the events after those already read, or waits for the final object if it is too late for events. */
  async #rest({ id, after }: StreamPosition, reader: BackgroundReader): Promise<Rest> {
    const { policy, signal } = this.#options
    const running = startAttempt(this.#get(`${id}?stream=true&starting_after=${after}`), reader, policy, signal)
    reader.reading(running)
    const end = await running.end
    if (end.refusal === undefined) return { end }
    return isTooOld(end.refusal.body) ? this.#final(id) : 'gone'
  }

  /** I2 */
  #cancel({ id }: StreamPosition): void {
    if (this.#isCancelled) return
    this.#isCancelled = true
    const request: AttemptRequest = { ...this.#get(`${id}/cancel`), method: 'POST', body: '' }
    // Not awaited: a provider that does not answer ends the generation on its own.
    void startAttempt(
      request,
      new WholeReader(this.#options.memory),
      this.#options.policy,
      AbortSignal.timeout(CANCEL_MS),
    ).end
  }

  async #final(id: string): Promise<Rest> {
    const { policy, signal, now, memory } = this.#options
    const until = now() + policy.progressMs
    for (
      let delayMs = policy.backoffMs;
      now() < until && !signal.aborted;
      delayMs = Math.min(delayMs * 2, POLL_MS_MAX)
    ) {
      const reader = new WholeReader(memory)
      const end = await startAttempt(this.#get(id), reader, policy, signal).end
      reader.memory.close()
      if (end.refusal !== undefined && end.refusal.status < 500 && end.refusal.status !== 429) return 'gone'
      const { status } = reader.json
      if (isObject(reader.json) && typeof status === 'string' && status !== 'queued' && status !== 'in_progress')
        return { final: reader.json }
      await sleep(delayMs, signal)
    }
    return 'gone'
  }

  #get(path: string): AttemptRequest {
    const [name = '', query = ''] = path.split('?')
    const url = joinUrl(this.#options.baseUrl, `responses/${name}`)
    const { 'content-type': _type, ...headers } = this.#options.headers
    return { method: 'GET', url: query === '' ? url : url + (url.includes('?') ? '&' : '?') + query, headers, body: '' }
  }
}

/** "… can no longer be streamed because it is more than 5 minutes old" */
function isTooOld(body: Buffer): boolean {
  const error = objectOr(objectOr(parsedOr(body.toString('utf8')))['error'])
  return /no longer be streamed|more than \d+ minutes old/i.test(stringOr(error['message']))
}

class WholeReader implements AttemptReader {
  readonly prefersWhole = true
  readonly memory: MemoryShare
  json: JsonObject = {}
  progress = 0

  constructor(memory: MemoryShare) {
    this.memory = memory.part()
  }

  frame(): 'ended' {
    return 'ended'
  }

  whole(body: Buffer, contentType: string): void {
    this.json = wholeJson(body, contentType, this.memory)
  }
}
