/** The daemons that share the store, and the runners that they share. Nothing, if this daemon works alone. */
import type { ComponentChildren, VNode } from 'preact'
import { isText, type Json, jsonOf, numberOf, textOf } from '../fold/shapes.ts'
import { Ago } from '../ui/times.tsx'

type FleetProps = { readonly daemons: readonly Json[]; readonly runners: readonly Json[]; readonly bootId: string }

export function FleetTables({ daemons, runners, bootId }: FleetProps): VNode {
  return (
    <>
      <Table
        name="Daemons"
        heads={['name', 'state', 'sessions', 'version', 'address', 'started']}
        rows={daemons}
        cells={(row) => [
          <>
            {textOf(row['name']) || textOf(row['bootId'])}{' '}
            {row['bootId'] === bootId ? <span class="chip">serves this page</span> : null}
          </>,
          <MemberState state={textOf(row['state'])} />,
          numberOf(row['held']),
          textOf(row['version']),
          textOf(row['url']),
          <Ago at={textOf(row['startedAt'])} />,
        ]}
      />
      <Table
        name="Runners"
        heads={['runner', 'state', 'boxes', 'isolation', 'address', 'last seen']}
        rows={runners}
        cells={(row) => [
          <code>{shortId(textOf(row['runnerId']))}</code>,
          <MemberState state={textOf(row['state'])} />,
          `${numberOf(row['boxes'])} of ${numberOf(row['capacity'])}`,
          isText(row['isolation']) ? row['isolation'] : textOf(jsonOf(row['isolation'])['level']),
          textOf(row['url']),
          <Ago at={textOf(row['lastSeen'])} />,
        ]}
      />
    </>
  )
}

/** Enough of an id to find it again. */
export const shortId = (id: string): string => id.slice(0, 13)

// ---- details ----

const MEMBER_STATES: Readonly<Record<string, { readonly glyph: string; readonly tone: string }>> = {
  live: { glyph: '●', tone: 'finished' },
  draining: { glyph: '◔', tone: 'parked' },
}

function MemberState({ state }: { readonly state: string }): VNode {
  const { glyph, tone } = MEMBER_STATES[state] ?? { glyph: '✗', tone: 'failed' }
  return (
    <span class={`dot tone-${tone}`}>
      <span aria-hidden="true">{glyph}</span> {state}
    </span>
  )
}

type TableProps = {
  readonly name: string
  readonly heads: readonly string[]
  readonly rows: readonly Json[]
  readonly cells: (row: Json) => readonly ComponentChildren[]
}

function Table({ name, heads, rows, cells }: TableProps): VNode | null {
  if (rows.length === 0) return null
  return (
    <>
      <h2>{name}</h2>
      <div class="scroll-x" tabIndex={0} role="region" aria-label={name} data-part={name}>
        <table class="rows">
          <thead>
            <tr>
              {heads.map((head) => (
                <th key={head}>{head}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index}>
                {cells(row).map((cell, column) => (
                  <td key={column} class="isolate" data-label={heads[column]}>
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
