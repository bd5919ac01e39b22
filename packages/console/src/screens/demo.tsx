/** Break things on purpose, and watch the thread survive them. Only under `breakfall demo`. */
import { signal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { survivedIn, type TurnView } from '../fold/view.ts'
import { createSession } from '@breakfall/client/internal'
import { daemon, json, operation } from '../link/api.ts'
import { feed, link, openFeed } from '../link/connection.ts'
import { fleet } from '../link/fleet.ts'
import { isNumber, type Json, jsonOf, listOf, textOf } from '../fold/shapes.ts'
import { Action, outcomes } from '../ui/action.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { isUtc } from '../ui/times.tsx'
import { type Pick, picked } from '../turn/selection.ts'
import { sendPrompt } from '../ui/composer.tsx'
import { StateBar } from '../turn/state-bar.tsx'
import { ThreadPane } from '../turn/thread-pane.tsx'
import { useJson } from '../ui/use-json.ts'
import { go, sessionLink } from '../ui/route.ts'
import { clockTime, length } from '../text/format.ts'

const NEXT = [
  { label: 'cut it', fault: 'reset:4' },
  { label: 'end it early', fault: 'early_end' },
  { label: 'stall 8 s', fault: 'stall:8000' },
  { label: 'answer 503', fault: 'status:503' },
  { label: 'answer 429, wait 5 s', fault: 'status:429:retryAfter=5s' },
  { label: 'garble it', fault: 'malformed_line' },
] as const

const KILLS = [
  { label: 'kill -9 the daemon', what: 'daemon', said: 'The daemon was killed. Watch: nothing is lost.' },
  { label: 'kill the runner', what: 'runner', said: 'The runner was killed.' },
  { label: 'move the runner', what: 'move-runner', said: 'The runner moved to another port.' },
] as const

/** The session of the demo, kept while the page lives. */
const demoSession = signal('')

export function DemoScreen(): VNode {
  const { data, isMissing, problem, reload } = useJson(operation('GET /v1/chaos', {}), 1_000)
  const [rate, setRate] = useState(0)
  useEffect(() => {
    document.title = 'Demo · Breakfall'
  }, [])
  const isConnected = link.state.value.kind === 'open'
  const id = demoId()
  useEffect(() => {
    if (id !== '') openFeed(id, 1)
  }, [id, isConnected])
  if (isMissing && data === null)
    return (
      <div class="page">
        <h1>Demo</h1>
        <p>
          This daemon is not a demo. Run <code>breakfall demo</code>: it needs no key and no model.
        </p>
      </div>
    )
  const injections = listOf(data?.['injections']).map(jsonOf).toReversed()
  const current = feed.value
  const rev = current?.rev.value ?? 0
  const turn = current?.view.turns.at(-1)
  return (
    <div class="page">
      <div class="page-head">
        <h1>Demo</h1>
        <span class="muted">a scripted model behind a proxy that breaks its answers. Everything else is real.</span>
      </div>
      <div class="card demo-panel">
        <div class="demo-buttons" role="group" aria-label="Turn">
          <Action
            id="demo-start"
            subject="demo"
            label={turn === undefined || turn.endedAt !== null ? 'Start a turn of 50 steps' : 'Queue another turn'}
            pendingLabel="Starting…"
            kind="primary"
            run={startTurn}
          />
          {turn === undefined ? null : (
            <a class="button" href={sessionLink(current?.id ?? '')}>
              Open its page
            </a>
          )}
        </div>
        <div class="demo-buttons" role="group" aria-label="Next answer">
          <strong>The next answer:</strong>
          {NEXT.map(({ label, fault }) => (
            <Action
              key={fault}
              id={`next:${fault}`}
              subject="demo"
              label={label}
              pendingLabel="…"
              run={async () => {
                await json(operation('POST /v1/chaos/next', {}, { body: { fault } }))
                reload()
                return `The next answer: ${label}.`
              }}
            />
          ))}
        </div>
        <div class="demo-buttons" role="group" aria-label="From now on">
          <label for="rate">From now on, break</label>
          <input
            id="rate"
            type="range"
            min="0"
            max="50"
            step="5"
            value={rate}
            onInput={(event) => setRate(Number(event.currentTarget.value))}
          />
          <output class="num">{rate} % of answers</output>
          <Action
            id="plan"
            subject="demo"
            label="Apply"
            pendingLabel="…"
            run={async () => {
              const plan =
                rate === 0 ? 'none' : `seed=7,rate=${rate / 100},faults=reset:4+early_end+status:503+malformed_line`
              await json(operation('PUT /v1/chaos/plan', {}, { body: { plan } }))
              return rate === 0 ? 'Nothing is broken from now on.' : `${rate} % of answers are broken from now on.`
            }}
          />
        </div>
        <div class="demo-buttons" role="group" aria-label="Kill">
          {KILLS.map(({ label, what, said }) => (
            <Action
              key={what}
              id={`kill:${what}`}
              subject="demo"
              label={label}
              pendingLabel="…"
              kind="kill"
              run={async () => {
                await json(operation('POST /v1/chaos/kill', {}, { body: { what } }))
                return said
              }}
            />
          ))}
        </div>
        <p role="status">{outcomes.value['demo'] || (data === null ? problem : '')}</p>
      </div>
      {turn === undefined ? (
        <p class="empty">Start a turn, then break something.</p>
      ) : (
        <Boundary what="the thread">
          <StateBar
            turn={turn}
            session={fleet.value.sessions.get(id)}
            isReadOnly={false}
            onWhy={() => go(sessionLink(id))}
          />
          <section class="card pane-demo" aria-label="Thread">
            <ThreadPane
              turn={turn}
              rev={rev}
              unfolded={NONE}
              onPick={(pick) => openPick(id, pick)}
              onUnfold={() => go(sessionLink(id))}
            />
          </section>
          <p>
            step {turn.steps.length} · survived {survivedIn(turn)} · lost {turn.status.unknownOutcomes}
          </p>
        </Boundary>
      )}
      {injections.length === 0 ? null : <h2>Injected</h2>}
      <ol class="injections" tabIndex={0} aria-label="Injected faults, newest first">
        {injections.map((injection, index) => (
          <Injected key={index} injection={injection} turn={turn} sessionId={id} />
        ))}
      </ol>
    </div>
  )
}

// ---- details, in the order they are used above ----

const NONE: ReadonlySet<number> = new Set()

/** After a reload, the session that exists. */
const demoId = (): string => demoSession.value || (fleet.value.sessions.values().next().value?.id ?? '')

async function startTurn(): Promise<string | undefined> {
  demoSession.value = demoId() || (await createSession(daemon, { title: 'Demo: 50 steps, each once' })).id
  await sendPrompt(demoSession.peek(), 'Write 50 lines, one per step, each exactly once.')
  return undefined
}

function openPick(id: string, pick: Pick): void {
  picked.value = null
  go(sessionLink(id, null, { step: pick.step, attempt: pick.attempt, call: pick.call }))
}

/** An injection, and the scar that it made: the first one after it. */
function Injected({
  injection,
  turn,
  sessionId,
}: {
  readonly injection: Json
  readonly turn: TurnView | undefined
  readonly sessionId: string
}): VNode {
  const at = Date.parse(textOf(injection['at']))
  const fault = injection['fault']
  const { status } = jsonOf(fault)
  const kind = `${textOf(jsonOf(fault)['kind'])}${isNumber(status) ? ` ${status}` : ''}`
  const failed = turn?.steps
    .flatMap((step) => step.attempts)
    .find(({ wait }) => wait !== null && wait.at >= at - 50 && wait.at < at + 20_000)
  const healed = failed?.wait == null ? null : (failed.wait.endedAt ?? failed.wait.until) - failed.wait.at
  return (
    <li>
      <span class="num">{clockTime(at, isUtc.value)}</span>
      <span>
        injected <code>{kind}</code>
        {isNumber(injection['events']) && injection['events'] > 0 ? ` after ${injection['events']} events` : ''}
      </span>
      {failed === undefined ? null : (
        <span>
          → scar at{' '}
          <a href={sessionLink(sessionId, null, { step: failed.step, attempt: failed.n })}>
            step {failed.step}, attempt {failed.n}
          </a>
          {healed === null ? '' : `, retried after ${length(healed)}`}
        </span>
      )}
    </li>
  )
}
