/** The stdio transport: one run of a supervised child. The supervisor owns the process; this only carries messages. */
import { type JSONRPCMessage, serializeMessage, type Transport } from '@modelcontextprotocol/client'
import { JsonLines } from './json-lines.ts'
import type { MessageLimits } from './message-meter.ts'

export type PipeOptions = {
  readonly write: (line: string) => Promise<void>
  readonly limits: MessageLimits
  readonly garbageLinesMax: number
  /** The child has broken the protocol beyond repair. */
  readonly onBroken: (why: string) => void
  /** A line on stdout that is no message. */
  readonly onGarbage: (line: string) => void
}

export class Pipe implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: (message: JSONRPCMessage) => void
  /** A message could not be written: the process is exiting, or does not read. */
  hasRefusedInput = false
  readonly #options: PipeOptions
  readonly #lines: JsonLines
  readonly #over = Promise.withResolvers<true>()
  #isOver = false
  #garbage = 0
  #isClosed = false

  constructor(options: PipeOptions) {
    this.#options = options
    const { limits, garbageLinesMax } = options
    this.#lines = new JsonLines(limits, {
      onMessage: (message) => this.onmessage?.(message),
      onGarbage: (line) => {
        options.onGarbage(line)
        this.#garbage += 1
        if (this.#garbage === garbageLinesMax)
          options.onBroken(`${garbageLinesMax} lines on stdout that are not messages; the last: ${line}`)
      },
      onTooLarge: (excess) => options.onBroken(`a line of ${excess} on stdout`),
    })
  }

  /** The process is gone or being ended. */
  get isOver(): boolean {
    return this.#isOver
  }

  get over(): Promise<true> {
    return this.#over.promise
  }

  /** Bytes from the child's stdout. */
  push(chunk: Buffer): void {
    if (!this.#isClosed) this.#lines.push(chunk)
  }

  async start(): Promise<void> {
    // The supervisor has started the child.
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#isClosed) throw new Error('the connection is closed')
    try {
      await this.#options.write(serializeMessage(message))
    } catch (thrown) {
      this.hasRefusedInput = true
      throw thrown
    }
  }

  /** Ends the conversation, not the process. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.onclose?.()
  }

  /** The process is gone or being ended. */
  end(): void {
    if (!this.#isClosed) this.#lines.end()
    this.#isOver = true
    this.#over.resolve(true)
    void this.close()
  }
}
