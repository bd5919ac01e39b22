/** The processes behind the page: daemon, runner, boxes, model server, MCP servers, with the last exit of each. */
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { operation } from '../link/api.ts'
import { system } from '../link/fleet.ts'
import { isNumber, isText, type Json, jsonOf, jsonOrNull, listOf, numberOf, textOf } from '../fold/shapes.ts'
import { Ago, Countdown } from '../ui/times.tsx'
import { Facts, LastExit, Part, Path, type Row, State } from './process-card.tsx'
import { FleetTables, shortId } from './fleet-tables.tsx'
import { McpCard } from './mcp-card.tsx'
import { useJson } from '../ui/use-json.ts'
import { bytes } from '../text/format.ts'
import { oneLine, reveal } from '../text/reveal.ts'

export function SystemScreen(): VNode {
  const read = useJson(operation('GET /v1/system', {}), 10_000)
  const live = system.value?.raw ?? null
  const data = live ?? read.data
  const boxes = useJson(operation('GET /v1/boxes', {}), 5_000)
  const mcp = useJson(operation('GET /v1/mcp', {}), 5_000)
  const daemons = listOf(data?.['daemons']).map(jsonOf)
  const runners = listOf(data?.['runners']).map(jsonOf)
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
            <Daemon data={data} name={nameOf(daemons, data)} />
          </Part>
          {runners.length > 0 ? null : (
            <Part name="Runner" json={data['runner']}>
              <Runner runner={jsonOf(data['runner'])} />
            </Part>
          )}
          <Part name="Model" json={data['model']}>
            <Model model={jsonOf(data['model'])} />
          </Part>
          {listOf(mcp.data?.['servers']).map((server) => (
            <Part key={textOf(jsonOf(server)['name'])} name={`MCP: ${textOf(jsonOf(server)['name'])}`} json={server}>
              <McpCard server={jsonOf(server)} reload={mcp.reload} />
            </Part>
          ))}
        </div>
      )}
      <FleetTables daemons={daemons} runners={runners} bootId={textOf(data?.['bootId'])} />
      <h2>Boxes</h2>
      {listOf(boxes.data?.['unreachable'])
        .filter(isText)
        .map((id) => (
          <p key={id} role="status">
            The runner <code>{shortId(id)}</code> did not answer: its boxes are missing here.
          </p>
        ))}
      <Boxes
        boxes={listOf(boxes.data?.['boxes']).map(jsonOf)}
        problem={boxes.problem}
        isLoaded={boxes.data !== null}
        isFleet={runners.length > 0}
      />
    </div>
  )
}

// ---- details, in the order they are used above ----

/** In a fleet, the daemon that serves this page. */
const nameOf = (daemons: readonly Json[], data: Json): string =>
  textOf(daemons.find(({ bootId }) => bootId === data['bootId'])?.['name'])

function Daemon({ data, name }: { readonly data: Json; readonly name: string }): VNode {
  const journal = jsonOf(data['journal'])
  const turns = jsonOf(data['turns'])
  const isFull = journal['isFull'] === true
  const quarantined = numberOf(journal['quarantined'])
  return (
    <>
      <State name="Daemon" state={isFull ? 'disk full: turns are parked' : 'running'} isGood={!isFull} />
      <Facts
        rows={[
          ['name', name],
          ['version', textOf(data['version'])],
          ['started', <Ago at={textOf(data['startedAt'])} />],
          ['turns', `${numberOf(turns['driven'])} running, ${numberOf(turns['parked'])} parked`],
          ['journal', isNumber(journal['bytes']) ? bytes(journal['bytes']) : ''],
          ['room on disk', isNumber(journal['freeBytes']) ? bytes(journal['freeBytes']) : ''],
          ['damaged journals', quarantined === 0 ? '' : String(quarantined)],
          ['state folder', <Path path={textOf(data['stateDir'])} />],
          ['token file', <Path path={textOf(data['tokenFile'])} />],
          ['folders for the API', listOf(data['workspaces']).filter(isText).map(reveal).join(', ')],
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
  return (
    <>
      <State name="Runner" state={RUNNER_STATES[state] ?? state} isGood={state === 'connected'} />
      <Facts
        rows={[
          ['address', textOf(runner['url'])],
          ['id', <code>{textOf(runner['runnerId'])}</code>],
          ['since', <Ago at={textOf(runner['since'])} />],
          ['isolation', textOf(runner['isolation'])],
        ]}
      />
    </>
  )
}

const CHILD_STATES: Readonly<Record<string, string>> = {
  backoff: 'restarting',
  given_up: 'given up',
}

function Model({ model }: { readonly model: Json }): VNode {
  const serve = jsonOrNull(model['serve'])
  const status = serve === null ? 'not run by Breakfall' : textOf(serve['status'])
  return (
    <>
      <State
        name="Model"
        state={CHILD_STATES[status] ?? status}
        isGood={serve === null || status === 'ready' || status === 'busy'}
      />
      <Facts
        rows={[
          ['model', textOf(model['name'])],
          ['address', textOf(model['baseUrl'])],
          ['profile', textOf(model['profile'])],
          [
            'fallbacks',
            listOf(model['fallbacks'])
              .map((one) => textOf(jsonOf(one)['name']))
              .join(' → '),
          ],
          ...(serve === null ? [] : childRows(serve)),
        ]}
      />
      {serve === null ? null : <LastExit exit={jsonOrNull(serve['lastExit'])} />}
    </>
  )
}

const childRows = (child: Json): readonly Row[] => [
  ['process', isNumber(child['pid']) ? `pid ${child['pid']}` : ''],
  ['failures in a row', isNumber(child['attempt']) && child['attempt'] > 0 ? String(child['attempt']) : ''],
  ['starts again in', isText(child['until']) ? <Countdown until={Date.parse(child['until'])} /> : ''],
  ['because', textOf(child['reason'])],
  ['says', <span class="mono">{oneLine(textOf(child['line']), 200)}</span>],
]

function Boxes({
  boxes,
  problem,
  isLoaded,
  isFleet,
}: {
  readonly boxes: readonly Json[]
  readonly problem: string
  readonly isLoaded: boolean
  readonly isFleet: boolean
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
            {isFleet ? <th>runner</th> : null}
            <th>running now</th>
          </tr>
        </thead>
        <tbody>
          {boxes.map((box) => (
            <tr key={textOf(box['id'])}>
              <td>
                <code>{shortId(textOf(box['id']))}</code>
              </td>
              <td data-label="state">{textOf(box['state'])}</td>
              <td class="isolate">{textOf(jsonOf(box['workspace'])['path'])}</td>
              <td data-label="isolation">{textOf(jsonOf(box['isolation'])['level'])}</td>
              {isFleet ? (
                <td data-label="runner">
                  <code>{shortId(textOf(box['runnerId']))}</code>
                </td>
              ) : null}
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
