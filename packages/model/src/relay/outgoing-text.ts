/** Text on its way to the client. Events that go out as they came in, one after the other, are one piece of what came in. */
import type { SseFrame } from '@breakfall/wire'
import { plainFrame } from '../dialects/dialect.ts'

export class OutgoingText {
  #text = ''
  /** The events added last: a piece of what was read, not yet part of the text. */
  #source = ''
  #from = 0
  #to = 0

  add(text: string): void {
    this.#join()
    this.#text += text
  }

  addFrame(frame: SseFrame): void {
    const { source } = frame
    if (source === undefined) return this.add(plainFrame(frame))
    if (source.from !== this.#to || source.text !== this.#source) {
      this.#join()
      this.#source = source.text
      this.#from = source.from
    }
    this.#to = source.to
  }

  /** Everything since the last call. */
  take(): string {
    this.#join()
    const text = this.#text
    this.#text = ''
    return text
  }

  #join(): void {
    if (this.#from === this.#to) return
    this.#text += this.#source.slice(this.#from, this.#to)
    this.#source = ''
    this.#from = this.#to = 0
  }
}
