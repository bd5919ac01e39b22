/** What a command printed: its first and last lines, how many are between, and the way to all of it. */
import type { VNode } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { execOutput } from '@breakfall/client/internal'
import { daemon } from '../link/api.ts'
import { ansiLines, type Line } from '../text/ansi.ts'
import { bytes, number } from '../text/format.ts'
import { sentenceOf } from '../text/reveal.ts'
import { memo } from '../ui/memo.ts'

const EDGE_LINES = 200
const SHORT_LINES = 12
const CHUNK_BYTES = 64 * 1024

type OutputProps = { readonly text: string; readonly label: string; readonly isLive: boolean }

export const Output = memo(
  ({ text, label, isLive }: OutputProps) => <Lines text={text} label={label} isLive={isLive} />,
  (a, b) => a.text === b.text && a.isLive === b.isLive,
)

/** The whole of it, from the runner, by pieces. */
export function WholeOutput({ sessionId, execId }: { readonly sessionId: string; readonly execId: string }): VNode {
  const [got, setGot] = useState<{ readonly text: string; readonly at: number; readonly of: number | null } | null>(
    null,
  )
  const [problem, setProblem] = useState('')
  const decoder = useRef(new TextDecoder()) // a piece may end in the middle of a character
  const output = (headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
    execOutput(daemon, sessionId, execId, 'stdout', headers)
  const more = async (): Promise<void> => {
    const from = got?.at ?? 0
    try {
      const response = await output({ range: `bytes=${from}-${from + CHUNK_BYTES - 1}` }).catch((error: unknown) => {
        if (from > 0) throw error
        return output({ range: `bytes=-${CHUNK_BYTES}` }) // its beginning is no longer kept
      })
      const chunk = new Uint8Array(await response.arrayBuffer())
      const [, start = from, total] = /^bytes (\d+)-\d+\/(\d+)$/.exec(response.headers.get('content-range') ?? '') ?? []
      const text = decoder.current.decode(chunk, { stream: true })
      const dropped = Number(start) - from
      setGot({
        text: (got?.text ?? '') + (dropped > 0 ? `[${bytes(dropped)} before this are not shown]\n` : '') + text,
        at: Number(start) + chunk.length,
        of: total === undefined ? null : Number(total),
      })
      setProblem('')
    } catch (error) {
      setProblem(sentenceOf(error))
    }
  }
  const download = async (): Promise<void> => {
    try {
      const blob = await (await output()).blob()
      saveAs(blob, `${execId}.stdout.txt`)
      setProblem('')
    } catch (error) {
      setProblem(sentenceOf(error))
    }
  }
  const isWhole = got?.of !== null && got !== null && got.at >= (got.of ?? 0)
  return (
    <>
      {got === null ? null : <Lines text={got.text} label="Whole output" isLive={false} />}
      <div class="more">
        {isWhole ? (
          <span>all {bytes(got.at)} shown</span>
        ) : (
          <button type="button" class="link" onClick={() => void more()}>
            {got === null
              ? 'Load the whole output'
              : `Load more (${bytes(got.at)}${got.of === null ? '' : ` of ${bytes(got.of)}`})`}
          </button>
        )}
        <button type="button" class="link" onClick={() => void download()}>
          Download
        </button>
        {problem === '' ? null : <span>{problem}</span>}
      </div>
    </>
  )
}

/** A file for the person, without a network request. */
export function saveAs(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob)
  const anchor = document.createElement('a')
  anchor.href = url
  anchor.download = name
  anchor.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

// ---- details ----

function Lines({ text, label, isLive }: OutputProps): VNode {
  const [isOpen, setOpen] = useState(false)
  const raw = text.endsWith('\n') ? text.slice(0, -1).split('\n') : text.split('\n')
  const edge = isOpen ? EDGE_LINES : SHORT_LINES / 2
  const isCut = raw.length > edge * 2 + 2
  const head = ansiLines((isCut ? raw.slice(0, isLive && !isOpen ? 2 : edge) : raw).join('\n'))
  const tail = isCut ? ansiLines(raw.slice(-edge).join('\n')) : []
  const between = raw.length - head.length - tail.length
  return (
    <>
      <pre class="output" tabIndex={0} role="group" aria-label={label}>
        {head.map(drawLine)}
        {isCut ? <span class="dim">{`⋯ ${number(between)} lines between\n`}</span> : null}
        {tail.map(drawLine)}
      </pre>
      {raw.length > SHORT_LINES + 2 ? (
        <div class="more">
          <button type="button" class="link" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen
              ? 'Show less'
              : `Show ${raw.length > EDGE_LINES * 2 ? 'the first and last 200' : `all ${number(raw.length)}`} lines`}
          </button>
        </div>
      ) : null}
    </>
  )
}

const drawLine = ({ spans, cut }: Line, index: number): VNode => (
  <span key={index}>
    {spans.map((span, at) =>
      span.style === '' ? (
        span.text
      ) : (
        <span key={at} class={span.style}>
          {span.text}
        </span>
      ),
    )}
    {cut === 0 ? '' : <span class="dim">{`⋯ ${number(cut)} more characters`}</span>}
    {'\n'}
  </span>
)
