/** The prompt of a run: its words, or what is piped in where `-` stands for them. */
import { isUtf8 } from 'node:buffer'
import { fstatSync } from 'node:fs'
import { Fault } from '@breakfall/faults'

/** What a request to the daemon has room for: the prompt as it is sent. */
const REQUEST_BYTES_MAX = 1024 * 1024

/** `signal` ends the waiting for what is piped in. */
export async function promptOf(words: readonly string[], signal: AbortSignal): Promise<string | undefined> {
  if (words.length === 0) return undefined
  const prompt = words.length > 1 || words[0] !== '-' ? words.join(' ') : await pipedPrompt(signal)
  if (Buffer.byteLength(JSON.stringify({ prompt })) > REQUEST_BYTES_MAX) throw tooLong()
  return prompt
}

/** Whether somebody may have piped something in. It is not read without being asked for: many leave an open pipe there that never ends. */
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
    error: 'the prompt is longer than a request may be (1 MiB); put it into a file of the folder, and name that',
  })

async function pipedPrompt(signal: AbortSignal): Promise<string> {
  signal.addEventListener('abort', () => process.stdin.destroy())
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > REQUEST_BYTES_MAX) throw tooLong()
  }
  const whole = Buffer.concat(chunks)
  if (!isUtf8(whole)) throw new Fault('invalid_request', { error: 'the prompt is not text: it must be UTF-8' })
  return whole.toString('utf8')
}
