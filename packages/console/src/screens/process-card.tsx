/** A process behind the page, as a card: its state, its facts, and why it ended last. */
import type { ComponentChildren, VNode } from 'preact'
import { isNumber, isText, type Json, jsonOf, listOf, textOf } from '../fold/shapes.ts'
import { counted, length } from '../text/format.ts'
import { oneLine, reveal } from '../text/reveal.ts'
import { Boundary } from '../ui/boundary.tsx'

export function Part({
  name,
  json,
  children,
}: {
  readonly name: string
  readonly json: unknown
  readonly children: ComponentChildren
}): VNode {
  return (
    <section class="card" aria-label={name} data-part={name}>
      <Boundary what={name} json={json}>
        {children}
      </Boundary>
    </section>
  )
}

export type Row = readonly [string, ComponentChildren]

export function Facts({ rows }: { readonly rows: readonly Row[] }): VNode {
  return (
    <dl class="facts-list">
      {rows
        .filter(([, value]) => value !== '' && value !== null && value !== undefined)
        .map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd class="isolate">{value}</dd>
          </>
        ))}
    </dl>
  )
}

export function State({
  name,
  state,
  isGood,
}: {
  readonly name: string
  readonly state: string
  readonly isGood: boolean
}): VNode {
  return (
    <h2>
      {name}{' '}
      <span class={`badge tone-${isGood ? 'finished' : 'retrying'}`}>
        <span aria-hidden="true">{isGood ? '●' : '◔'}</span> {state}
      </span>
    </h2>
  )
}

/** A path that breaks between folders, not inside a name. */
export function Path({ path }: { readonly path: string }): VNode {
  return (
    <code>
      {reveal(path)
        .split(/(?<=\/)/)
        .map((part, index) => (
          <span key={index}>
            {part}
            <wbr />
          </span>
        ))}
    </code>
  )
}

/** Why a process ended last: the headline, what was recognised and what helps, and its last lines. */
export function LastExit({ exit }: { readonly exit: Json | null }): VNode | null {
  if (exit === null) return null
  const diagnoses = listOf(exit['diagnoses']).map(jsonOf)
  const tail = listOf(exit['tail']).filter(isText)
  const how = isText(exit['signal'])
    ? exit['signal']
    : isNumber(exit['code'])
      ? `exit ${exit['code']}`
      : textOf(exit['kind'])
  return (
    <div class="notice tone-retrying">
      <div>
        <strong>Last exit: {textOf(exit['headline']) || how}</strong>{' '}
        <span class="muted">
          {how}
          {isNumber(exit['uptimeMs']) ? ` after ${length(exit['uptimeMs'])}` : ''}
        </span>
        {diagnoses.map((one, index) => (
          <p key={index}>
            {textOf(one['message'])} <span class="muted">{textOf(one['advice'])}</span>
          </p>
        ))}
        {tail.length === 0 ? null : (
          <details>
            <summary>Its last {counted(tail.length, 'line')}</summary>
            <pre class="raw" tabIndex={0}>
              {tail.map((line) => oneLine(line, 400)).join('\n')}
            </pre>
          </details>
        )}
      </div>
    </div>
  )
}
