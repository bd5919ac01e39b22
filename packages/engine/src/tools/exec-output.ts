/**
 * An exec's output without secrets, although a secret may arrive in chunks, and the position up to which it was shown. A process
 * that follows the exec later, or after a broken connection, continues exactly there.
 *
 * I1  Every event up to `execSeq` was shown, and of later events the bytes before `execOffsets`. Text held back as a possible start of
 *     a secret is read again; text shown since, of either stream, is not shown again.
 */
import type { ExecEvent } from '@breakfall/wire'
import { type KnownSecrets, SecretStream } from '../secrets.ts'
import type { ExecPosition } from '../turn/state.ts'
import type { OutputChunk } from './output.ts'

type Stream = OutputChunk['stream']
type Printed = Extract<ExecEvent, { type: Stream }>
type Gap = Extract<ExecEvent, { type: 'gap' }>

const STREAMS: readonly Stream[] = ['stdout', 'stderr']

export class ExecOutput {
  readonly #said: Readonly<Record<Stream, SecretStream<number>>>
  /** How many bytes of each stream were read, by this process or an earlier one. */
  readonly #read: { [S in Stream]?: number | undefined }
  #seq: number

  constructor(secrets: KnownSecrets, { execSeq, execOffsets }: ExecPosition) {
    this.#said = { stdout: new SecretStream(secrets), stderr: new SecretStream(secrets) }
    this.#read = { ...execOffsets }
    this.#seq = execSeq
  }

  /** What may be shown after this event. */
  take(event: Printed): OutputChunk {
    const { type: stream, seq } = event
    const text = this.#fresh(event)
    this.#seq = seq
    return { stream, text: text === '' ? '' : this.#said[stream].push(text, seq).text }
  }

  /** What was held back of the stream, and a note about what the runner has dropped. */
  skip({ stream, from, to, seq }: Gap): OutputChunk {
    const first = Math.max(from, this.#read[stream] ?? 0)
    this.#seq = seq
    const rest = this.#said[stream].end()?.text ?? ''
    if (to <= first) return { stream, text: rest }
    this.#read[stream] = to
    return { stream, text: `${rest}\n[… bytes ${first} to ${to} of ${stream} are no longer kept …]\n` }
  }

  /** The exec is over: what was held back. */
  rest(): readonly OutputChunk[] {
    return STREAMS.map((stream) => ({ stream, text: this.#said[stream].end()?.text ?? '' }))
  }

  /** The position up to which everything was shown. */
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

  /** The event's text that was not shown before. Bytes that are not UTF-8 become replacement characters; the runner keeps the bytes. */
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
