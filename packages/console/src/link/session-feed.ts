/**
 * One session's events, folded as they come and shown once a frame.
 *
 * I1  After a reconnect it asks for what follows the last event it folded, by JOURNAL-SEQ. Nothing is folded twice.
 * I2  Only a reset starts over: the daemon has another journal now.
 * I3  However fast events come, the page renders at most once per animation frame.
 */
import { signal } from '@preact/signals'
import { formatCursor } from '@breakfall/wire/browser'
import { fold } from '../fold/fold.ts'
import { emptyFold, type SessionFold } from '../fold/view.ts'
import { CallError } from './api.ts'
import { isJson, isText, type Json, numberOf, textOf } from './shapes.ts'
import type { Link } from './socket.ts'

export type FeedState = 'loading' | 'live' | 'missing' | 'deleted'

export class SessionFeed {
  readonly id: string
  view: SessionFold = emptyFold()
  /** Changes once per frame in which something was folded. */
  readonly rev = signal(0)
  readonly state = signal<FeedState>('loading')
  /** Why the fold started over, until the person has read it. */
  readonly resetReason = signal<string | null>(null)
  /** Events in the journal when we subscribed: what the replay has to reach. */
  readonly head = signal(0)
  #journal: string | null = null
  #from: number
  #isDrawing = false

  /** `from`: the first event that is wanted. */
  constructor(id: string, from = 1) {
    this.id = id
    this.#from = from
  }

  get from(): number {
    return this.#from
  }

  get isCaughtUp(): boolean {
    return this.state.peek() === 'live' && this.view.lastSeq >= this.head.peek()
  }

  async subscribe(link: Link): Promise<void> {
    try {
      const result = await link.request('subscribe', { sessionId: this.id, after: this.#cursor() })
      this.#journal = textOf(result['journal'])
      this.head.value = numberOf(result['lastSeq'])
      this.state.value = 'live'
      this.#draw()
    } catch (error) {
      const isMissing = error instanceof CallError && error.fault.category === 'not_found'
      if (isMissing) this.state.value = this.view.events === 0 ? 'missing' : 'deleted'
      // otherwise the connection broke: the next one subscribes again
    }
  }

  async unsubscribe(link: Link): Promise<void> {
    await link.request('unsubscribe', { sessionId: this.id }).catch(() => undefined) // a closed connection has no subscriptions
  }

  /** Earlier turns, on demand: folds again from there. */
  async restartFrom(seq: number, link: Link): Promise<void> {
    this.#from = seq
    this.view = emptyFold()
    this.#journal = null
    await this.subscribe(link)
  }

  /** Whether the frame was this session's. */
  take(frame: Json): boolean {
    const { event, reset, closed } = frame
    if (isJson(event) && event['sessionId'] === this.id) {
      fold(this.view, event)
      this.#draw()
      return true
    }
    if (isJson(reset) && reset['sessionId'] === this.id) {
      this.view = emptyFold() // I2
      this.#from = 1
      this.resetReason.value = textOf(reset['reason'], 'another journal')
      this.#draw()
      return true
    }
    if (isJson(closed) && closed['sessionId'] === this.id) {
      if (isText(closed['reason']) && closed['reason'] === 'session_deleted') this.state.value = 'deleted'
      return true
    }
    return false
  }

  // ---- details ----

  #cursor(): string | number {
    if (this.view.lastSeq === 0) return this.#from - 1
    return this.#journal === null || this.#journal === '' // I1
      ? this.view.lastSeq
      : formatCursor(this.#journal, this.view.lastSeq)
  }

  #draw(): void {
    if (this.#isDrawing) return
    this.#isDrawing = true
    const done = (): void => {
      this.#isDrawing = false
      this.rev.value += 1
    }
    // A hidden tab gets no animation frames; it catches up by timer, so it is whole when it is looked at.
    if (document.visibilityState === 'visible') requestAnimationFrame(done) // I3
    else setTimeout(done, 250)
  }
}
