/**
 * A response that the client asked for with `background: true`: the provider keeps generating when the connection breaks, so
 * the rest is read instead of asked for again.
 *
 * I1  Only if the client asked for it: background generations are stored at the provider and billed to their end.
 * I2  A response without a reader is cancelled, once.
 */
import { sleep } from '@breakfall/faults'
import type { AttemptEnd, AttemptReader, AttemptRequest } from '../attempt/attempt.ts'
import { startAttempt } from '../attempt/start-attempt.ts'
import type { StreamPosition } from '../dialects/read-answer.ts'
import { isObject, type JsonObject, objectOr, parsedOr, stringOr } from '../json.ts'
import { joinUrl } from '../target.ts'
import { profileOf, upstreamHeaders } from './relay-request.ts'
import type { RelayRequest, RelayTarget, ResolvedRelayOptions } from './relay.ts'

/** What asking for the rest led to: the stream was read on, the final object came instead, or neither can be had. */
export type Rest = { readonly end: AttemptEnd } | { readonly final: JsonObject } | 'gone'

const POLL_MS_MAX = 5_000
const CANCEL_MS = 10_000

export class BackgroundResponse {
  readonly #request: RelayRequest
  readonly #target: RelayTarget
  readonly #options: ResolvedRelayOptions
  #isCancelled = false

  constructor(request: RelayRequest, target: RelayTarget, options: ResolvedRelayOptions) {
    this.#request = request
    this.#target = target
    this.#options = options
  }

  /** I1 */
  get isAsked(): boolean {
    const { api, json } = this.#request
    return api === 'openai-responses' && json['background'] === true && profileOf(this.#target).reattach === 'responses'
  }

  /** Reads the events after those already read, or waits for the final object if it is too late for events. */
  async rest(
    { id, after }: StreamPosition,
    reader: AttemptReader,
    onTry: (end: { pause(): void; resume(): void }) => void,
  ): Promise<Rest> {
    const { policy, signal } = this.#options
    const running = startAttempt(this.#get(`${id}?stream=true&starting_after=${after}`), reader, policy, signal)
    onTry(running)
    const end = await running.end
    if (end.refusal === undefined) return { end }
    return isTooOld(end.refusal.body) ? this.#final(id) : 'gone'
  }

  /** I2 */
  cancel({ id }: StreamPosition): void {
    if (this.#isCancelled) return
    this.#isCancelled = true
    const request: AttemptRequest = { ...this.#get(`${id}/cancel`), method: 'POST', body: '' }
    // Not awaited: a provider that does not answer ends the generation on its own.
    void startAttempt(request, new WholeReader(), this.#options.policy, AbortSignal.timeout(CANCEL_MS)).end
  }

  // ---- details ----

  async #final(id: string): Promise<Rest> {
    const { policy, signal, now } = this.#options
    const until = now() + policy.progressMs
    for (
      let delayMs = policy.backoffMs;
      now() < until && !signal.aborted;
      delayMs = Math.min(delayMs * 2, POLL_MS_MAX)
    ) {
      const reader = new WholeReader()
      const end = await startAttempt(this.#get(id), reader, policy, signal).end
      if (end.refusal !== undefined && end.refusal.status < 500 && end.refusal.status !== 429) return 'gone'
      const { status } = reader.json
      if (isObject(reader.json) && typeof status === 'string' && status !== 'queued' && status !== 'in_progress')
        return { final: reader.json }
      await sleep(delayMs, signal)
    }
    return 'gone'
  }

  #get(path: string): AttemptRequest {
    const { baseUrl } = this.#target
    const [name = '', query = ''] = path.split('?')
    const url = joinUrl(baseUrl, `responses/${name}`)
    const { 'content-type': _type, ...headers } = upstreamHeaders(this.#request.headers, this.#target)
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
  json: JsonObject = {}
  progress = 0

  frame(): 'ended' {
    return 'ended'
  }

  whole(body: Buffer): void {
    this.json = objectOr(parsedOr(body.toString('utf8')))
  }
}
