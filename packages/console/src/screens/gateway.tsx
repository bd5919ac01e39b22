/** The gateway's streams, as its own snapshot shows them: live ones, totals, upstreams, the last notes. */
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { operation } from '../link/api.ts'
import { gateway } from '../link/fleet.ts'
import { isNumber, isText, type Json, jsonOf, listOf, numberOf, textOf } from '../fold/shapes.ts'
import { titleOfCategory } from '../ui/labels.tsx'
import { Ago, Countdown } from '../ui/times.tsx'
import { useJson } from '../ui/use-json.ts'
import { bytes, counted, number } from '../text/format.ts'
import { oneLine, reveal } from '../text/reveal.ts'

export function GatewayScreen(): VNode {
  const read = useJson(operation('GET /v1/gateway', {}), 2_000)
  useEffect(() => {
    document.title = 'Gateway · Breakfall'
  }, [])
  const data = gateway.value ?? read.data
  return (
    <div class="page">
      <h1>Gateway</h1>
      {data === null ? (
        <p role="status">
          {read.isMissing
            ? 'No gateway runs beside this daemon. Start it with `breakfall up --gateway`.'
            : read.problem || 'Loading…'}
        </p>
      ) : (
        <>
          <Totals totals={jsonOf(data['totals'])} />
          <h2>Live streams</h2>
          <Streams streams={listOf(data['live']).map(jsonOf)} />
          <h2>Upstreams</h2>
          <Upstreams upstreams={listOf(data['upstreams']).map(jsonOf)} />
          <h2>Last notes</h2>
          <ol class="injections" tabIndex={0} aria-label="Notes">
            {listOf(data['recent'])
              .map(jsonOf)
              .toReversed()
              .map((note, index) => (
                <li key={index}>
                  <Ago at={textOf(note['at'])} /> <span class="isolate">{reveal(textOf(note['text']))}</span>
                </li>
              ))}
          </ol>
        </>
      )}
    </div>
  )
}

// ---- details ----

function Totals({ totals }: { readonly totals: Json }): VNode {
  return (
    <div class="row">
      {Object.entries(totals).flatMap(([name, value]) =>
        isNumber(value)
          ? [
              <span key={name} class="chip">
                {name.replaceAll(/([A-Z])/g, ' $1').toLowerCase()} <strong>{number(value)}</strong>
              </span>,
            ]
          : [],
      )}
    </div>
  )
}

function Streams({ streams }: { readonly streams: readonly Json[] }): VNode {
  if (streams.length === 0) return <p class="muted">No stream is open.</p>
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Live streams">
      <table class="rows">
        <thead>
          <tr>
            <th>model</th>
            <th>state</th>
            <th>attempt</th>
            <th>sent</th>
            <th>last fault</th>
            <th>next attempt</th>
          </tr>
        </thead>
        <tbody>
          {streams.map((stream, index) => {
            const category = textOf(stream['lastFault'])
            return (
              <tr key={textOf(stream['requestId']) || index}>
                <td>{textOf(stream['model'])}</td>
                <td data-label="state">{textOf(stream['state'])}</td>
                <td class="num" data-label="attempt">
                  {isNumber(stream['attempt']) ? stream['attempt'] : ''}
                </td>
                <td class="num" data-label="sent">
                  {isNumber(stream['bytes']) ? bytes(stream['bytes']) : ''}
                </td>
                <td data-label="last fault">{category === '' ? '' : titleOfCategory(category)}</td>
                <td data-label="next attempt">
                  {isText(stream['nextAt']) ? <Countdown until={Date.parse(stream['nextAt'])} /> : ''}
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

function Upstreams({ upstreams }: { readonly upstreams: readonly Json[] }): VNode {
  return (
    <ul>
      {upstreams.map((upstream, index) => (
        <li key={index}>
          <code>{oneLine(textOf(upstream['url']), 100)}</code>{' '}
          {upstream['isHealthy'] === true
            ? 'healthy'
            : `away after ${counted(numberOf(upstream['failuresInARow']), 'failure')} in a row`}
          {isText(upstream['lastFault']) ? `; last fault: ${titleOfCategory(upstream['lastFault'])}` : ''}
        </li>
      ))}
    </ul>
  )
}
