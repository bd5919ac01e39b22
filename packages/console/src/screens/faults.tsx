/** What went wrong here, by fingerprint: how often, in how many sessions, and what became of it. */
import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { Call } from '@breakfall/client/internal'
import { operation, json } from '../link/api.ts'
import { clock } from '../link/clock.ts'
import { isNumber, type Json, jsonOf, listOf, numberOf, textOf } from '../fold/shapes.ts'
import { Category, titleOfCategory } from '../ui/labels.tsx'
import { Ago } from '../ui/times.tsx'
import { useJson } from '../ui/use-json.ts'
import { faultLink, sessionLink } from '../ui/route.ts'
import { counted, number } from '../text/format.ts'
import { oneLine } from '../text/reveal.ts'
import { Action, outcomes } from '../ui/action.tsx'

const CLASSES = ['transient', 'throttled', 'needs_action', 'invalid', 'internal', 'unknown_outcome'] as const
const SINCE = [
  { hours: 1, word: 'last hour' },
  { hours: 24, word: 'last 24 hours' },
  { hours: 24 * 7, word: 'last 7 days' },
  { hours: 0, word: 'all time' },
] as const

export function FaultsScreen({ fingerprint }: { readonly fingerprint: string | null }): VNode {
  useEffect(() => {
    document.title = 'Faults · Breakfall'
  }, [])
  return fingerprint === null ? <Groups /> : <Occurrences fingerprint={fingerprint} />
}

// ---- details, in the order they are used above ----

function Groups(): VNode {
  const [hours, setHours] = useState(24)
  const [faultClass, setClass] = useState('')
  const [isOpenOnly, setOpenOnly] = useState(false)
  const [from] = useState(clock.server())
  const call = operation('GET /v1/faults/seen', {
    since: hours > 0 ? new Date(from - hours * 3_600_000).toISOString() : undefined,
    class: faultClass || undefined,
    open: isOpenOnly ? 1 : undefined,
  })
  const { data, problem } = useJson(call, 5_000)
  const older = useMore(call, 'groups', textOf(data?.['next']))
  const groups = [...listOf(data?.['groups']), ...older.rows].map(jsonOf)
  return (
    <div class="page">
      <div class="page-head">
        <h1>Faults</h1>
        <span class="spacer" />
        <a href="#/faults/catalogue">Catalogue of all categories</a>
      </div>
      <div class="row">
        <label>
          <span class="sr">Time</span>
          <select value={hours} onChange={(event) => setHours(Number(event.currentTarget.value))}>
            {SINCE.map(({ hours: value, word }) => (
              <option key={value} value={value}>
                {word}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span class="sr">Class</span>
          <select value={faultClass} onChange={(event) => setClass(event.currentTarget.value)}>
            <option value="">every class</option>
            {CLASSES.map((name) => (
              <option key={name} value={name}>
                {name.replaceAll('_', ' ')}
              </option>
            ))}
          </select>
        </label>
        <label class="check">
          <input type="checkbox" checked={isOpenOnly} onChange={(event) => setOpenOnly(event.currentTarget.checked)} />
          only open
        </label>
      </div>
      {problem === '' ? null : <p role="status">{problem}</p>}
      {data !== null && groups.length === 0 ? (
        <p class="empty">No faults in this time. Nothing had to be survived.</p>
      ) : null}
      <ol class="groups">
        {groups.map((group) => (
          <Group key={textOf(group['fingerprint'])} group={group} />
        ))}
      </ol>
      <More of={older} />
    </div>
  )
}

/** `isPage`: on its own page, whose head has the title and the category. */
function Group({ group, isPage = false }: { readonly group: Json; readonly isPage?: boolean }): VNode {
  const sample = jsonOf(group['sample'])
  const category = textOf(group['category'])
  const n = (name: string): number => numberOf(group[name])
  const split = (['survived', 'parked', 'open', 'ended'] as const).filter((name) => n(name) > 0)
  return (
    <li class="group" data-fingerprint={textOf(group['fingerprint'])}>
      {isPage ? null : (
        <h2>
          <a href={faultLink(textOf(group['fingerprint']))}>{textOf(group['title']) || titleOfCategory(category)}</a>
        </h2>
      )}
      <p class="raw-line">{oneLine(textOf(sample['errorRaw']), 200)}</p>
      <div class="facts">
        {isPage ? null : <code>{category}</code>}
        <span>{[textOf(group['boundary']), textOf(group['phase'])].filter(Boolean).join(', ')}</span>
        <span>in {counted(n('sessions'), 'session')}</span>
        {split.map((name) => (
          <span key={name}>
            {name === 'ended' ? 'ended its turn' : name} {number(n(name))}
          </span>
        ))}
        <span>
          {n('count') > 1 ? (
            <>
              first <Ago at={textOf(group['firstAt'])} />, last{' '}
            </>
          ) : null}
          <Ago at={textOf(group['lastAt'])} />
        </span>
        {textOf(group['class']) === 'needs_action' && n('parked') + n('open') > 0 ? (
          <strong class="badge tone-failed">▲ needs you</strong>
        ) : null}
      </div>
      <div class="side">
        <span class="times num">×{number(n('count'))}</span>
        <Bars hours={listOf(group['hours']).filter(isNumber)} />
        <span class="split" aria-hidden="true">
          {split.map((name) => (
            <i key={name} class={name} style={{ flex: n(name) }} />
          ))}
        </span>
      </div>
    </li>
  )
}

/** A day in bars: 20 lines of SVG instead of a chart library. */
function Bars({ hours }: { readonly hours: readonly number[] }): VNode | null {
  if (hours.length === 0) return null
  const max = Math.max(1, ...hours)
  return (
    <svg
      class="bars"
      viewBox={`0 0 ${hours.length * 6} 26`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`By hour, last 24 hours: at most ${max}`}
    >
      {hours.map((count, index) => {
        const height = count === 0 ? 1 : Math.max(3, (count / max) * 26)
        return (
          <rect
            key={index}
            x={index * 6}
            y={26 - height}
            width="4.6"
            height={height}
            fill="currentColor"
            opacity={count === 0 ? 0.35 : 1}
          />
        )
      })}
    </svg>
  )
}

function Occurrences({ fingerprint }: { readonly fingerprint: string }): VNode {
  const call = operation('GET /v1/faults/seen/{fingerprint}', { fingerprint })
  const { data, problem, isMissing } = useJson(call, 5_000)
  const older = useMore(call, 'occurrences', textOf(data?.['next']))
  const group = jsonOf(data?.['group'])
  const occurrences = [...listOf(data?.['occurrences']), ...older.rows].map(jsonOf)
  const category = textOf(group['category'])
  return (
    <div class="page">
      <div class="page-head">
        <a href="#/faults">← Faults</a>
        <h1>{category === '' ? 'Fault' : titleOfCategory(category)}</h1>
        {category === '' ? null : <Category name={category} />}
      </div>
      {problem === '' ? null : (
        <p role="status">{isMissing ? 'No session has met this fault, or the sessions were deleted.' : problem}</p>
      )}
      {category === '' ? null : (
        <ol class="groups">
          <Group group={group} isPage />
        </ol>
      )}
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Occurrences">
        <table class="rows">
          <thead>
            <tr>
              <th>when</th>
              <th>session</th>
              <th>step</th>
              <th>what became of it</th>
              <th>original error</th>
            </tr>
          </thead>
          <tbody>
            {occurrences.map((one, index) => (
              <Occurrence key={index} one={one} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="muted">
        {number(occurrences.length)} of {counted(numberOf(group['count']), 'occurrence')} shown. <More of={older} />
      </p>
    </div>
  )
}

const BECAME: Readonly<Record<string, string>> = {
  survived: '✓ survived',
  parked: '◔ the turn is parked',
  ended: '✗ ended the turn',
  open: '↻ open',
}

function Occurrence({ one }: { readonly one: Json }): VNode {
  const sessionId = textOf(one['sessionId'])
  const step = isNumber(one['step']) ? one['step'] : undefined
  const attempt = isNumber(one['attempt']) ? one['attempt'] : undefined
  const title = textOf(one['sessionTitle']) || sessionId
  return (
    <tr class="occurrence">
      <td>
        <Ago at={textOf(one['at'])} />
      </td>
      <td>
        <a href={sessionLink(sessionId, textOf(one['turnId']) || null, { step, attempt })}>{oneLine(title, 60)}</a>
      </td>
      <td class="num" data-label="step">
        {step ?? ''}
      </td>
      <td>{BECAME[textOf(one['became'])] ?? textOf(one['became'])}</td>
      <td class="mono isolate">{oneLine(textOf(one['errorRaw']), 160)}</td>
    </tr>
  )
}

/** Pages after the first one, loaded when a person asks for them. */
type MoreRows = {
  readonly rows: readonly unknown[]
  /** Undefined if there are none. */
  readonly load: (() => Promise<undefined>) | undefined
}

/** `first` is the `next` of the first page. */
function useMore(call: Call, field: string, first: string): MoreRows {
  const [rows, setRows] = useState<readonly unknown[]>([])
  const [next, setNext] = useState<string | null>(null)
  useEffect(() => {
    setRows([])
    setNext(null)
  }, [call.path])
  const cursor = next ?? first
  if (cursor === '') return { rows, load: undefined }
  const load = async (): Promise<undefined> => {
    const separator = call.path.includes('?') ? '&' : '?'
    const page = await json({ ...call, path: `${call.path}${separator}cursor=${encodeURIComponent(cursor)}` })
    setRows([...rows, ...listOf(page[field])])
    setNext(textOf(page['next']))
  }
  return { rows, load }
}

function More({ of: { load } }: { readonly of: MoreRows }): VNode | null {
  if (load === undefined) return null
  return (
    <>
      <Action id="more" subject="more" label="Load older ones" pendingLabel="Loading…" run={load} />{' '}
      <span role="status">{outcomes.value['more']}</span>
    </>
  )
}
