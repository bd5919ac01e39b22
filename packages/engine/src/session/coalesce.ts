/**
 * Gathers small chunks of text into events: at most one every 25 ms or 4 KiB. A commit per token would cost an fdatasync each, and
 * no one reads faster than that. The first chunk after a silence does not wait. Chunks that arrive during a write join the next
 * write: the busier the daemon, the fewer and larger its writes.
 *
 * I1  Order is kept: a chunk is only ever joined to the last held chunk.
 * I2  A failed write is reported to every later push or flush; nothing is dropped silently.
 */
import type { Clock, Timer } from '../clock.ts'
import type { EventDraft, EventDraftOf } from '@breakfall/wire'

const COALESCE_DEFAULTS = { ms: 25, chars: 4 * 1024 } as const

/** Events whose text arrives in chunks. */
export type TextDraft = EventDraftOf<'text-delta' | 'reasoning-delta' | 'tool-output'>

type Held =
  | { readonly isOpen: true; readonly draft: TextDraft }
  | { readonly isOpen: false; readonly draft: EventDraft }

export class Coalescer {
  readonly #write: (drafts: readonly EventDraft[]) => Promise<unknown>
  readonly #limits: { readonly ms: number; readonly chars: number }
  #held: Held[] = []
  #chars = 0
  readonly #clock: Pick<Clock, 'after' | 'soon'>
  #timer: Timer | undefined
  #writing: Promise<unknown> = Promise.resolve()
  #failed: { readonly error: unknown } | undefined

  constructor(
    write: (drafts: readonly EventDraft[]) => Promise<unknown>,
    clock: Pick<Clock, 'after' | 'soon'>,
    limits: { ms: number; chars: number } = COALESCE_DEFAULTS,
  ) {
    this.#write = write
    this.#clock = clock
    this.#limits = limits
  }

  /** `continues` says whether the draft continues the held draft. Waits only if much is held. */
  async push(draft: TextDraft, continues: (held: TextDraft) => boolean): Promise<void> {
    this.#throwFailure()
    const last = this.#held.at(-1)
    if (last?.isOpen === true && continues(last.draft))
      this.#held[this.#held.length - 1] = { isOpen: true, draft: { ...draft, text: last.draft.text + draft.text } }
    else this.#held.push({ isOpen: true, draft }) // I1
    this.#chars += draft.text.length
    if (this.#chars >= this.#limits.chars) await this.flush()
    else if (this.#timer === undefined) this.#flushSoon()
  }

  /** Writes everything held, followed by the given events, in one append. */
  async flush(...then: readonly EventDraft[]): Promise<void> {
    for (const draft of then) this.#held.push({ isOpen: false, draft })
    const writing = this.#writing.then(() => {
      this.#throwFailure()
      const drafts = this.#taken()
      return drafts.length === 0 ? undefined : this.#write(drafts)
    })
    this.#writing = writing.catch((error: unknown) => {
      this.#failed ??= { error } // I2: this write may have included the chunks of a later flush
    })
    await writing
  }

  /** Drops the timer and everything held. Resolves once the write under way has ended: only then does the fold have what it wrote. */
  async drop(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = undefined
    this.#taken()
    await this.#writing
  }

  /** Flushes now, then not again until the time is up. */
  #flushSoon(): void {
    const next = (): void => {
      this.#timer = undefined
      if (this.#held.length > 0) this.#flushSoon()
    }
    this.#timer = this.#clock.after(this.#limits.ms, next).unref() // it only spaces the flushes; the held text was flushed at once
    this.#clock.soon(() => {
      this.flush().catch(() => undefined) // I2: kept, and reported by the next push or flush
    })
  }

  #taken(): EventDraft[] {
    const drafts = this.#held.map(({ draft }) => draft)
    this.#held = []
    this.#chars = 0
    return drafts
  }

  #throwFailure(): void {
    if (this.#failed !== undefined) throw this.#failed.error
  }
}
