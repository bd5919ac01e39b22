/** Every kind of fault that Breakfall knows, what it does about each, and the page that explains it. */
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { FAULTS } from '@breakfall/faults'
import { operation } from '../link/api.ts'
import { jsonOf, listOf, numberOf, textOf } from '../fold/shapes.ts'
import { titleOfCategory } from '../ui/labels.tsx'
import { useJson } from '../ui/use-json.ts'
import { categoryLink } from '../ui/route.ts'
import { counted } from '../text/format.ts'
import { Markdown } from '../ui/markdown-view.tsx'

const NEXT: Readonly<Record<string, string>> = {
  never: 'reports it',
  retry: 'retries',
  resolve: 'looks up the address and retries',
  restart: 'restarts the process',
  compact: 'shortens the conversation and retries',
  park: 'parks the turn until it can continue',
}

export function CatalogueScreen({ category }: { readonly category: string | null }): VNode {
  useEffect(() => {
    document.title = `${category ?? 'Catalogue'} · Breakfall`
  }, [category])
  return category === null ? <Table /> : <Page category={category} />
}

// ---- details ----

function useSeen(): ReadonlyMap<string, number> {
  const { data } = useJson(operation('GET /v1/faults/seen', {}))
  const seen = new Map<string, number>()
  for (const group of listOf(data?.['groups']).map(jsonOf)) {
    const name = textOf(group['category'])
    seen.set(name, (seen.get(name) ?? 0) + numberOf(group['count']))
  }
  return seen
}

function Table(): VNode {
  const seen = useSeen()
  const rows = Object.entries(FAULTS)
  return (
    <div class="page">
      <div class="page-head">
        <a href="#/faults">← Faults</a>
        <h1>Catalogue</h1>
        <span class="muted">{counted(rows.length, 'category', 'categories')}</span>
      </div>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Categories of faults">
        <table class="rows">
          <thead>
            <tr>
              <th>category</th>
              <th>what it means</th>
              <th>class</th>
              <th>where</th>
              <th>what Breakfall does</th>
              <th>HTTP</th>
              <th>seen here</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(([name, row]) => (
              <tr key={name}>
                <td>
                  <a href={categoryLink(name)}>
                    <code>{name}</code>
                  </a>
                </td>
                <td>{row.title}</td>
                <td data-label="class">{row.class.replaceAll('_', ' ')}</td>
                <td data-label="where">{row.boundary}</td>
                <td data-label="Breakfall">{NEXT[row.next]}</td>
                <td class="num" data-label="HTTP">
                  {row.http}
                </td>
                <td class="num" data-label="seen here">
                  {seen.get(name) ?? ''}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  )
}

function Page({ category }: { readonly category: string }): VNode {
  const { data, problem } = useJson(operation('GET /v1/faults/{category}', { category }))
  const seen = useSeen().get(category) ?? 0
  return (
    <div class="page">
      <div class="page-head">
        <a href="#/faults/catalogue">← Catalogue</a>
        <h1>{titleOfCategory(category)}</h1>
        <code>{category}</code>
        <span class="muted">{seen === 0 ? 'not seen here' : `seen here ${counted(seen, 'time')}`}</span>
      </div>
      {problem === '' ? null : <p role="status">{problem}</p>}
      {data === null ? null : (
        <>
          <div class="row">
            {(['class', 'boundary', 'next', 'http', 'exitCode'] as const).map((name) =>
              data[name] === undefined ? null : (
                <span key={name} class="chip">
                  {name === 'exitCode' ? 'exit code' : name}: {JSON.stringify(data[name]).replaceAll('"', '')}
                </span>
              ),
            )}
          </div>
          <h2>What it means</h2>
          <Markdown text={textOf(data['page']).replaceAll(/^# [^]*?\n## What it means\n+|<!--.*?-->\n/g, '')} />
        </>
      )}
    </div>
  )
}
