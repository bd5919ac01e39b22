/** The prompt of a run: its arguments, or standard input for `-`. */
import { isUtf8 } from 'node:buffer'
import { fstatSync } from 'node:fs'
import { Fault } from '@breakfall/faults'

/** What a request to the daemon can hold. */
const REQUEST_BYTES_MAX = 1024 * 1024

/** `signal` ends the wait for standard input. */
export async function readPrompt(words: readonly string[], signal: AbortSignal): Promise<string | undefined> {
  if (words.length === 0) return undefined
  const prompt = words.length > 1 || words[0] !== '-' ? words.join(' ') : await pipedPrompt(signal)
  if (Buffer.byteLength(JSON.stringify({ prompt })) > REQUEST_BYTES_MAX) throw tooLong()
  return prompt
}

/** Whether something may have been piped in. It is read only on request: many programs leave a pipe open that never ends. */
export function isPiped(): boolean {
  try {
    const stdin = fstatSync(0)
    return stdin.isFIFO() || stdin.isFile()
  } catch {
    return false // closed
  }
}

// ---- details ----

const tooLong = (): Fault =>
  new Fault('payload_too_large', {
    error: 'The prompt is larger than 1 MiB; put it into a file in the folder, and name that file in the prompt',
  })

async function pipedPrompt(signal: AbortSignal): Promise<string> {
  signal.addEventListener('abort', () => process.stdin.destroy())
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of process.stdin) {
    const piece = Buffer.from(chunk)
    chunks.push(piece)
    bytes += piece.length
    if (bytes > REQUEST_BYTES_MAX) throw tooLong()
  }
  const whole = Buffer.concat(chunks)
  if (!isUtf8(whole)) throw new Fault('invalid_request', { error: 'The prompt is not valid UTF-8 text' })
  return whole.toString('utf8')
}
