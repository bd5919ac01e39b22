/** An exec's output from the journal, if the journal has all of it. */
import type { SessionViewer } from '@breakfall/client'
import type { Turn } from '@breakfall/wire'

export type JournalledOutput = {
  readonly stdout: string
  readonly stderr: string
  /** False: some bytes were not text, and only the runner has them. */
  readonly isExact: boolean
}

/** `cut`: the journal left out a part of it. `unknown`: the turn called no tool with this id. */
export async function journalledOutput(
  viewer: Pick<SessionViewer, 'events' | 'session'>,
  { sessionId, firstSeq = 1, lastSeq }: Turn,
  execId: string,
): Promise<JournalledOutput | 'cut' | 'unknown'> {
  const last = lastSeq ?? (await viewer.session(sessionId)).lastSeq
  const over = new AbortController()
  const texts = { stdout: '', stderr: '' }
  let callId: string | undefined
  for await (const event of viewer.events(sessionId, { after: firstSeq - 1, signal: over.signal })) {
    if (event.type === 'tool-call' && event.execId === execId) ({ callId } = event)
    if (event.type === 'tool-output' && event.callId === callId) texts[event.stream] += event.text
    const isEnded = event.type === 'tool-result' && event.callId === callId
    if (isEnded || event.seq >= last) break
  }
  over.abort()
  if (callId === undefined) return 'unknown'
  if (CUT.test(texts.stdout)) return 'cut'
  return { ...texts, isExact: !`${texts.stdout}${texts.stderr}`.includes('\ufffd') }
}

/** The line with which the daemon marks what it left out. */
const CUT = /^\[… \d+ bytes left out here; the runner keeps all of it …\]$/m

export const isCutMark = (line: string): boolean => line.startsWith('[… ') && CUT.test(line)
