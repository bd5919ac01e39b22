/**
 * One session's events, folded as they come and shown once a frame.
 *
 * I1  After a reconnect it asks for what follows the last event it has, by JOURNAL-SEQ. Nothing is folded twice, and nothing is
 *     skipped: the client's `EventPosition` counts.
 * I2  Only a reset starts over: the daemon has another journal now.
 * I3  However fast events come, the page renders at most once per animation frame.
 */
import { signal } from '@preact/signals'
import { EventPosition, isFault } from '@breakfall/client/internal'
import { formatCursor } from '@breakfall/wire/browser'
import { fold } from '../fold/fold.ts'
import { emptyFold, type SessionFold } from '../fold/view.ts'
import { isJson, isText, type Json, numberOf, textOf } from '../fold/shapes.ts'
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
  #journal = ''
  #from: number
  #position: EventPosition
  #isSubscribing = false
  #isDrawing = false

  /** `from`: the first event that is wanted. */
  constructor(id: string, from = 1) {
    this.id = id
    this.#from = from
    this.#position = new EventPosition(from - 1)
  }

  get from(): number {
    return this.#from
  }

  get isCaughtUp(): boolean {
    return this.state.peek() === 'live' && this.view.lastSeq >= this.head.peek()
  }

  async subscribe(link: Link): Promise<void> {
    this.#isSubscribing = true
    try {
      const result = await link.request('subscribe', { sessionId: this.id, after: this.#position.cursor ?? 0 })
      this.#journal = textOf(result['journal'])
      this.head.value = numberOf(result['lastSeq'])
      this.state.value = 'live'
      this.#draw()
    } catch (error) {
      const isMissing = isFault(error) && error.category === 'not_found'
      if (isMissing) this.state.value = this.view.events === 0 ? 'missing' : 'deleted'
      // otherwise the connection broke: the next one subscribes again
    } finally {
      this.#isSubscribing = false
    }
  }

  async unsubscribe(link: Link): Promise<void> {
    await link.request('unsubscribe', { sessionId: this.id }).catch(() => undefined) // a closed connection has no subscriptions
  }

  /** Earlier turns, on demand: folds again from there. */
  async restartFrom(seq: number, link: Link): Promise<void> {
    this.#from = seq
    this.view = emptyFold()
    this.#position = new EventPosition(seq - 1)
    await this.subscribe(link)
  }

  /** Whether the frame was this session's. */
  take(frame: Json, link: Link): boolean {
    const { event, reset, closed } = frame
    if (isJson(event) && event['sessionId'] === this.id) {
      if (!this.#isNext(numberOf(event['seq']), link)) return true
      fold(this.view, event)
      this.#draw()
      return true
    }
    if (isJson(reset) && reset['sessionId'] === this.id) {
      this.view = emptyFold() // I2
      this.#position.reset()
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

  /** I1 */
  #isNext(seq: number, link: Link): boolean {
    try {
      return this.#position.take(seq, this.#journal === '' ? seq : formatCursor(this.#journal, seq))
    } catch {
      // Events are missing before this one. The journal has them: a subscription that is on its way brings them, or another connection.
      if (!this.#isSubscribing) link.drop()
      return false
    }
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
