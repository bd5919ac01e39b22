/** The daemons that share the store, and the runners that they share. Nothing, if this daemon works alone. */
import type { ComponentChildren, VNode } from 'preact'
import { isText, type Json, jsonOf, listOf, numberOf, textOf } from '../link/shapes.ts'
import { reveal } from '../text/reveal.ts'
import { Ago } from './basics.tsx'
import { useJson } from './use-json.ts'

export function FleetTables(): VNode {
  const daemons = useJson('/v1/daemons', 5_000)
  const runners = useJson('/v1/runners', 5_000)
  return (
    <>
      <Table
        name="Daemons"
        heads={['name', 'state', 'sessions', 'version', 'address', 'started']}
        rows={listOf(daemons.data?.['daemons']).map(jsonOf)}
        cells={(row) => [
          reveal(textOf(row['name'])) || textOf(row['bootId']),
          textOf(row['state']),
          numberOf(row['held']),
          textOf(row['version']),
          reveal(textOf(row['url'])),
          <Ago at={textOf(row['startedAt'])} />,
        ]}
      />
      <Table
        name="Runners"
        heads={['runner', 'state', 'boxes', 'isolation', 'address', 'last seen']}
        rows={listOf(runners.data?.['runners']).map(jsonOf)}
        cells={(row) => [
          <code>{textOf(row['runnerId']).slice(0, 13)}</code>,
          textOf(row['state']),
          `${numberOf(row['boxes'])} of ${numberOf(row['capacity'])}`,
          isText(row['isolation']) ? row['isolation'] : textOf(jsonOf(row['isolation'])['level']),
          reveal(textOf(row['url'])),
          <Ago at={textOf(row['lastSeen'])} />,
        ]}
      />
    </>
  )
}

// ---- details ----

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
                  <td key={column} class="isolate">
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
