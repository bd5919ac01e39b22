/**
 * What an exec prints, as far as it may be told: without secrets, though one may come in pieces, and with the place up to which
 * it was told, so that whoever follows the exec after us, or after a broken connection, goes on exactly there.
 *
 * I1  Every event up to `execSeq` is told, and of those after it the bytes before `execOffsets`: what waits because it may be the
 *     beginning of a secret is read again, what was told since, of either stream, is not told again.
 */
import type { ExecEvent } from '@breakfall/wire'
import { SecretStream, type Secrets } from '../secrets.ts'
import type { ExecPosition } from '../turn/state.ts'
import type { OutputChunk } from './output.ts'

type Stream = OutputChunk['stream']
type Printed = Extract<ExecEvent, { type: Stream }>
type Gap = Extract<ExecEvent, { type: 'gap' }>

const STREAMS: readonly Stream[] = ['stdout', 'stderr']

export class ExecOutput {
  readonly #said: Readonly<Record<Stream, SecretStream<number>>>
  /** How many bytes of each stream were read, here or by whoever was here before. */
  readonly #read: { [S in Stream]?: number | undefined }
  #seq: number

  constructor(secrets: Secrets, { execSeq, execOffsets }: ExecPosition) {
    this.#said = { stdout: new SecretStream(secrets), stderr: new SecretStream(secrets) }
    this.#read = { ...execOffsets }
    this.#seq = execSeq
  }

  /** What may be told now that the event has come. */
  take(event: Printed): OutputChunk {
    const { type: stream, seq } = event
    const text = this.#fresh(event)
    this.#seq = seq
    return { stream, text: text === '' ? '' : this.#said[stream].push(text, seq).text }
  }

  /** What was held of the stream, and a word about what the runner has dropped. */
  skip({ stream, from, to, seq }: Gap): OutputChunk {
    const first = Math.max(from, this.#read[stream] ?? 0)
    this.#seq = seq
    const rest = this.#said[stream].end()?.text ?? ''
    if (to <= first) return { stream, text: rest }
    this.#read[stream] = to
    return { stream, text: `${rest}\n[… bytes ${first} to ${to} of ${stream} are no longer kept …]\n` }
  }

  /** The exec is over: what was held. */
  rest(): readonly OutputChunk[] {
    return STREAMS.map((stream) => ({ stream, text: this.#said[stream].end()?.text ?? '' }))
  }

  /** The place up to which all is told that was given out so far. */
  position(): ExecPosition {
    const execOffsets: Partial<Record<Stream, number>> = {}
    let execSeq = this.#seq
    for (const stream of STREAMS) {
      const { held } = this.#said[stream]
      const read = this.#read[stream]
      if (read !== undefined) execOffsets[stream] = read - Buffer.byteLength(held?.text ?? '')
      if (held !== null) execSeq = Math.min(execSeq, held.mark - 1) // I1
    }
    return { execSeq, execOffsets }
  }

  /** The event's text, without what was told before. What is no UTF-8 is shown with replacement characters; the runner keeps the bytes. */
  #fresh({ type: stream, offset, data, dataBase64 }: Printed): string {
    const told = this.#read[stream] ?? 0
    if (data !== undefined && offset >= told) {
      this.#read[stream] = offset + Buffer.byteLength(data)
      return data
    }
    const bytes = Buffer.from(data ?? dataBase64 ?? '', data === undefined ? 'base64' : 'utf8')
    this.#read[stream] = Math.max(told, offset + bytes.length)
    return bytes.subarray(Math.max(0, told - offset)).toString('utf8') // I1
  }
}
