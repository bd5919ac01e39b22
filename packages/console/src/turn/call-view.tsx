/** One tool call: what it was asked to do, what it printed, how it ended. */
import type { VNode } from 'preact'
import { now } from '../link/clock.ts'
import type { Call, Wait } from '../fold/view.ts'
import { jsonOf, textOf } from '../fold/shapes.ts'
import { callLine, faultTitle, OUTCOMES } from './words.ts'
import { counted, length } from '../text/format.ts'
import { type Later, later } from '../text/load-later.ts'
import { printable, reveal } from '../text/reveal.ts'
import { Approval } from './approval.tsx'
import { memo } from '../ui/memo.ts'
import { Output, WholeOutput } from './output.tsx'

type CallProps = {
  readonly call: Call
  readonly rev: number
  readonly sessionId: string
  readonly turnId: string
  readonly isReadOnly: boolean
  readonly onPick: (callId: string) => void
}

export const CallView = memo(
  (props: CallProps) => <Shown {...props} />,
  (a, b) => a.call === b.call && a.rev === b.rev,
)

// ---- details, in the order they are used above ----

const ASKED = { glyph: '▲', tone: 'failed', word: 'waits for you' } as const

function Shown({ call, sessionId, turnId, isReadOnly, onPick }: CallProps): VNode {
  const isAsked = call.approval?.decision === null && call.outcome === 'running'
  const { glyph, tone } = isAsked ? ASKED : OUTCOMES[call.outcome]
  const line = reveal(callLine(call))
  return (
    <div
      class={`call ${call.outcome === 'unknown' ? 'is-unknown' : ''}`}
      id={`call-${call.id}`}
      data-outcome={call.outcome}
    >
      <div class="call-head">
        <button
          type="button"
          class="quiet tool"
          onClick={() => onPick(call.id)}
          aria-label={`Inspect ${call.tool} ${line}`}
        >
          {call.tool}
        </button>
        <code class="what isolate">{line}</code>
        <span class={`badge tone-${tone}`}>
          <span aria-hidden="true">{glyph}</span>
          <span>{isAsked ? ASKED.word : endWord(call)}</span>
        </span>
      </div>
      {call.approval === null || (call.approval.decision === null && !isAsked) ? null : (
        <Approval approval={call.approval} call={call} turnId={turnId} isReadOnly={isReadOnly} />
      )}
      {call.lookups.length === 0 ? null : <Lookups lookups={call.lookups} isOver={call.outcome !== 'running'} />}
      <Body call={call} />
      {call.outcome === 'unknown' ? (
        <p class="more">It cannot be known whether this ran: {reveal(call.result)} The model was told.</p>
      ) : null}
      {call.exit?.diagnostics.map((diagnostic, index) => (
        <p class="more" key={index}>
          <strong>{diagnostic.message}</strong> {diagnostic.advice}
        </p>
      ))}
      {isCut(call) && call.execId !== null && !isReadOnly ? (
        <WholeOutput sessionId={sessionId} execId={call.execId} />
      ) : null}
    </div>
  )
}

function endWord(call: Call): string {
  const ms = call.spans.reduce((sum, span) => sum + (span.to ?? now.value) - span.from, 0)
  const took = length(call.exit?.durationMs ?? Math.max(0, ms))
  if (call.outcome === 'running') return `running ${took}`
  if (call.outcome === 'unknown') return OUTCOMES.unknown.word
  const signal = call.exit?.signal ?? null
  const code = call.exit?.code ?? null
  if (call.outcome === 'failed')
    return `${signal === null ? (code === null ? 'failed' : `exit ${code}`) : signal} · ${took}`
  return call.outcome === 'cancelled' ? 'cancelled' : took
}

/** The output that the journal keeps may be the head and tail of more. */
const isCut = (call: Call): boolean =>
  call.exit != null && (call.exit.truncated || call.exit.stdoutBytes > call.outputBytes + 1_024)

function Lookups({ lookups, isOver }: { readonly lookups: readonly Wait[]; readonly isOver: boolean }): VNode {
  const last = lookups.at(-1)
  if (last === undefined) return <></>
  return (
    <p class="more tone-retrying">
      <span aria-hidden="true" class="stitch">
        {isOver ? '⌇' : '↻'}
      </span>
      <span>
        Looked for the runner {lookups.length} of {last.max}: {faultTitle(last.fault)}
        {isOver ? ', then found it' : ''}
      </span>
    </p>
  )
}

function Body({ call }: { readonly call: Call }): VNode | null {
  const given = jsonOf(call.arguments)
  const [before, after, content] = [textOf(given['old']), textOf(given['new']), textOf(given['content'])]
  if (call.tool === 'edit' && (before !== '' || after !== '')) return <Diff before={before} after={after} />
  if (call.tool === 'write' && content !== '') return <Output text={content} label="What it wrote" isLive={false} />
  const text = call.output !== '' ? call.output : call.outcome === 'unknown' ? '' : call.result
  if (text === '') return null
  return <Output text={text} label={`Output of ${call.tool}`} isLive={call.outcome === 'running'} />
}

function Diff({ before, after }: { readonly before: string; readonly after: string }): VNode {
  const changes = before.length + after.length > 200_000 ? [] : (later.value?.diffLines ?? wholeTexts)(before, after)
  const counts = changes.filter(({ added, removed }) => added || removed).length
  return (
    <pre class="diff" tabIndex={0} role="group" aria-label={`Change: ${counted(counts, 'stretch', 'stretches')}`}>
      {changes.length === 0
        ? 'This change is too large to compare here.'
        : changes.flatMap(({ added, removed, value }, index) =>
            value
              .replace(/\n$/, '')
              .split('\n')
              .map((line, at) => {
                const key = `${index}-${at}`
                if (added) return <ins key={key}>{printable(line)}</ins>
                return removed ? <del key={key}>{printable(line)}</del> : <span key={key}>{printable(line)}</span>
              }),
          )}
    </pre>
  )
}

const wholeTexts = (before: string, after: string): ReturnType<Later['diffLines']> => [
  { removed: true, added: false, value: before, count: 1 },
  { removed: false, added: true, value: after, count: 1 },
]
