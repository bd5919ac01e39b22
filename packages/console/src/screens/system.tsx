/** The processes behind the page: daemon, runner, boxes, model server, MCP servers, with the last exit of each. */
import type { ComponentChildren, VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { system } from '../link/fleet.ts'
import { isJson, isNumber, isText, type Json, jsonOf, jsonOrNull, listOf, numberOf, textOf } from '../link/shapes.ts'
import { Ago, Boundary } from '../parts/basics.tsx'
import { useJson } from '../parts/use-json.ts'
import { bytes, counted, length } from '../text/format.ts'
import { oneLine, reveal } from '../text/reveal.ts'

export function SystemScreen(): VNode {
  const read = useJson('/v1/system', 10_000)
  const live = system.value?.raw ?? null
  const data = live ?? read.data
  const boxes = useJson('/v1/boxes', 5_000)
  const mcp = useJson('/v1/mcp', 5_000)
  const daemons = useJson('/v1/daemons', 5_000)
  const runners = useJson('/v1/runners', 5_000)
  useEffect(() => {
    document.title = 'System · Breakfall'
  }, [])
  return (
    <div class="page">
      <div class="page-head">
        <h1>System</h1>
      </div>
      {data === null ? <p role="status">{read.problem || 'Loading…'}</p> : null}
      {data === null ? null : (
        <div class="grid-cards">
          <Part name="Daemon" json={data}>
            <Daemon data={data} />
          </Part>
          <Part name="Runner" json={data['runner']}>
            <Runner runner={jsonOf(data['runner'])} />
          </Part>
          <Part name="Model" json={data['model']}>
            <Model model={jsonOf(data['model'])} />
          </Part>
          {listOf(mcp.data?.['servers']).map((server, index) => (
            <Part key={index} name={`MCP: ${textOf(jsonOf(server)['name'])}`} json={server}>
              <Mcp server={jsonOf(server)} />
            </Part>
          ))}
          {listOf(daemons.data?.['daemons']).length > 1 ? (
            <Part name="Daemons" json={daemons.data}>
              <Names rows={listOf(daemons.data?.['daemons']).map(jsonOf)} />
            </Part>
          ) : null}
          {listOf(runners.data?.['runners']).length > 1 ? (
            <Part name="Runners" json={runners.data}>
              <Names rows={listOf(runners.data?.['runners']).map(jsonOf)} />
            </Part>
          ) : null}
        </div>
      )}
      <h2>Boxes</h2>
      <Boxes boxes={listOf(boxes.data?.['boxes']).map(jsonOf)} problem={boxes.problem} isLoaded={boxes.data !== null} />
    </div>
  )
}

// ---- details, in the order they are used above ----

function Part({
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

type Row = readonly [string, ComponentChildren]

function Facts({ rows }: { readonly rows: readonly Row[] }): VNode {
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

function State({
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

function Daemon({ data }: { readonly data: Json }): VNode {
  const journal = jsonOf(data['journal'])
  const turns = jsonOf(data['turns'])
  const isFull = journal['isFull'] === true
  const quarantined = isNumber(journal['quarantined']) ? journal['quarantined'] : listOf(journal['quarantined']).length
  return (
    <>
      <State name="Daemon" state={isFull ? 'disk full: turns are parked' : 'running'} isGood={!isFull} />
      <Facts
        rows={[
          ['version', textOf(data['version'])],
          ['started', <Ago at={textOf(data['startedAt'])} />],
          ['turns', `${counted(numberOf(turns['driven']), 'turn')} running, ${numberOf(turns['parked'])} parked`],
          ['journal', isNumber(journal['bytes']) ? bytes(journal['bytes']) : ''],
          ['room on disk', isNumber(journal['freeBytes']) ? bytes(journal['freeBytes']) : ''],
          ['damaged journals', quarantined === 0 ? '' : String(quarantined)],
          ['state folder', <code>{reveal(textOf(data['stateDir']))}</code>],
          ['token file', <code>{reveal(textOf(data['tokenFile']))}</code>],
          ['folders', listOf(data['workspaces']).filter(isText).map(reveal).join(', ')],
        ]}
      />
    </>
  )
}

const RUNNER_STATES: Readonly<Record<string, string>> = {
  connected: 'connected',
  starting: 'starting',
  looking: 'not reachable; looking for it',
  none: 'none',
}

function Runner({ runner }: { readonly runner: Json }): VNode {
  const state = textOf(runner['state'], 'none')
  const isolation = isJson(runner['isolation']) ? textOf(runner['isolation']['level']) : textOf(runner['isolation'])
  return (
    <>
      <State name="Runner" state={RUNNER_STATES[state] ?? state} isGood={state === 'connected'} />
      <Facts
        rows={[
          ['address', textOf(runner['url'])],
          ['id', <code>{textOf(runner['runnerId'])}</code>],
          ['since', <Ago at={textOf(runner['since'])} />],
          ['isolation', isolation],
        ]}
      />
    </>
  )
}

function Model({ model }: { readonly model: Json }): VNode {
  const serve = jsonOrNull(model['serve'])
  const state = serve === null ? 'not run by Breakfall' : textOf(serve['state'])
  return (
    <>
      <State
        name="Model"
        state={state}
        isGood={serve === null || state === 'ready' || state === 'busy' || state === 'running'}
      />
      <Facts
        rows={[
          ['model', reveal(textOf(model['name']))],
          ['address', reveal(textOf(model['baseUrl']))],
          ['profile', textOf(model['profile'])],
          [
            'fallbacks',
            listOf(model['fallbacks'])
              .map((one) => (isText(one) ? one : textOf(jsonOf(one)['model']) || textOf(jsonOf(one)['name'])))
              .filter(Boolean)
              .join(' → '),
          ],
          ['process', serve !== null && isNumber(serve['pid']) ? `pid ${serve['pid']}` : ''],
          ['attempt', serve !== null && isNumber(serve['attempt']) ? String(serve['attempt']) : ''],
          ['until', serve !== null && isText(serve['until']) ? <Ago at={serve['until']} /> : ''],
        ]}
      />
      {serve === null ? null : <LastExit exit={jsonOrNull(serve['lastExit'])} />}
    </>
  )
}

function Mcp({ server }: { readonly server: Json }): VNode {
  const state = textOf(server['state'])
  return (
    <>
      <State name={`MCP server ${reveal(textOf(server['name']))}`} state={state} isGood={state === 'ready'} />
      <Facts
        rows={[
          ['tools', isNumber(server['tools']) ? String(server['tools']) : ''],
          ['since', <Ago at={textOf(server['since'])} />],
          ['protocol', textOf(server['era'])],
        ]}
      />
      <LastExit exit={jsonOrNull(server['lastExit'])} />
    </>
  )
}

/** Why a process ended last: the headline, what was recognised and what helps, and its last lines. */
function LastExit({ exit }: { readonly exit: Json | null }): VNode | null {
  if (exit === null) return null
  const diagnoses = listOf(exit['diagnoses'] ?? exit['diagnostics']).map(jsonOf)
  const tail = listOf(exit['tail']).filter(isText)
  const how = isText(exit['signal'])
    ? exit['signal']
    : isNumber(exit['code'])
      ? `exit ${exit['code']}`
      : textOf(exit['kind'])
  return (
    <div class="notice tone-retrying">
      <div>
        <strong>Last exit: {reveal(textOf(exit['headline'])) || how}</strong>{' '}
        <span class="muted">
          {how}
          {isNumber(exit['uptimeMs']) ? ` after ${length(exit['uptimeMs'])}` : ''}
        </span>
        {diagnoses.map((one, index) => (
          <p key={index}>
            {reveal(textOf(one['message']))} <span class="muted">{reveal(textOf(one['advice']))}</span>
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

function Names({ rows }: { readonly rows: readonly Json[] }): VNode {
  return (
    <Facts
      rows={rows.map((row) => [
        textOf(row['name']) || textOf(row['id']),
        [textOf(row['state']), textOf(row['url'])].filter(Boolean).join(' '),
      ])}
    />
  )
}

function Boxes({
  boxes,
  problem,
  isLoaded,
}: {
  readonly boxes: readonly Json[]
  readonly problem: string
  readonly isLoaded: boolean
}): VNode {
  if (boxes.length === 0)
    return (
      <p class="muted">
        {isLoaded ? 'No box exists now. A session gets one with its first command.' : problem || 'Loading…'}
      </p>
    )
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Boxes">
      <table class="rows">
        <thead>
          <tr>
            <th>box</th>
            <th>state</th>
            <th>workspace</th>
            <th>isolation</th>
            <th>running now</th>
          </tr>
        </thead>
        <tbody>
          {boxes.map((box) => (
            <tr key={textOf(box['id'])}>
              <td>
                <code>{textOf(box['id']).slice(0, 13)}</code>
              </td>
              <td>{textOf(box['state'])}</td>
              <td class="isolate">{reveal(textOf(jsonOf(box['workspace'])['path']))}</td>
              <td>{textOf(jsonOf(box['isolation'])['level'])}</td>
              <td class="mono isolate">
                {listOf(box['execs'])
                  .map(jsonOf)
                  .filter((exec) => textOf(exec['state']) !== 'exited')
                  .map((exec) => oneLine(listOf(exec['command']).filter(isText).join(' '), 90))
                  .join('; ')}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
