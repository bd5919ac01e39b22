/** One MCP server: its state, why it ended, its tools, its last lines, and a restart button. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { json, operation } from '../link/api.ts'
import { isNumber, isText, type Json, jsonOf, jsonOrNull, listOf, textOf } from '../fold/shapes.ts'
import { counted } from '../text/format.ts'
import { oneLine } from '../text/reveal.ts'
import { Action, outcomes } from '../ui/action.tsx'
import { Ago } from '../ui/times.tsx'
import { Facts, State } from './process-card.tsx'
import { useJson } from '../ui/use-json.ts'

type McpProps = { readonly server: Json; readonly reload: () => void }

export function McpCard({ server, reload }: McpProps): VNode {
  const name = textOf(server['name'])
  const state = textOf(server['state'])
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <State name={`MCP server ${name}`} state={state} isGood={state === 'ready'} />
      <Facts
        rows={[
          ['tools', isNumber(server['tools']) ? String(server['tools']) : ''],
          ['since', <Ago at={textOf(server['since'])} />],
          ['protocol', textOf(server['era'])],
          ['because', state === 'ready' ? '' : textOf(server['error'])],
        ]}
      />
      <Exit exit={jsonOrNull(server['lastExit'])} />
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>Tools and last lines</summary>
        {isOpen ? <Detail name={name} /> : null}
      </details>
      <div class="row">
        <Action
          id={`mcp:${name}`}
          subject={`mcp:${name}`}
          label="Restart"
          pendingLabel="Restarting…"
          run={async () => {
            await json(operation('POST /v1/mcp/{name}/restart', { name }))
            reload()
            return 'It was asked to restart.'
          }}
        />
        <span role="status">{outcomes.value[`mcp:${name}`]}</span>
      </div>
    </>
  )
}

// ---- details ----

function Exit({ exit }: { readonly exit: Json | null }): VNode | null {
  if (exit === null) return null
  const how = isText(exit['signal']) ? exit['signal'] : isNumber(exit['code']) ? `exit ${exit['code']}` : ''
  return (
    <div class="notice tone-retrying">
      <div>
        <strong>Last exit: {textOf(exit['error']) || how}</strong> <span class="muted">{how}</span>
      </div>
    </div>
  )
}

function Detail({ name }: { readonly name: string }): VNode {
  const { data, problem } = useJson(operation('GET /v1/mcp/{name}', { name }))
  if (data === null) return <p role="status">{problem || 'Loading…'}</p>
  const offered = listOf(data['offered']).map(jsonOf)
  const refused = listOf(data['refused']).map(jsonOf)
  const log = listOf(data['log']).filter(isText)
  return (
    <>
      <ul class="tools">
        {offered.map((tool) => (
          <li key={textOf(tool['name'])}>
            <code>{textOf(tool['tool'])}</code>{' '}
            {tool['readOnly'] === true && tool['trusted'] === true ? null : <span class="chip">asks first</span>}{' '}
            <span class="muted">{oneLine(textOf(tool['description']), 160)}</span>
          </li>
        ))}
        {refused.map((tool) => (
          <li key={`refused ${textOf(tool['tool'])}`}>
            <code>{textOf(tool['tool'])}</code> is not offered: {textOf(tool['because'])}
          </li>
        ))}
      </ul>
      {log.length === 0 ? null : (
        <pre class="raw" tabIndex={0} aria-label={`Its last ${counted(log.length, 'line')}`}>
          {log.map((line) => oneLine(line, 400)).join('\n')}
        </pre>
      )}
    </>
  )
}
