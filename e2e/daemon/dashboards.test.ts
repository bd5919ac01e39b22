/** The dashboard and the alerts in `deploy/` use metrics and labels that a daemon, its runner and a gateway really serve. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startGateway } from '@breakfall/gateway'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { root } from '../../test/sources.ts'
import { ask, bash, cutAfter, refuse, say } from '../answers.ts'
import { Rig } from './rig.ts'

const file = (name: string): string => readFileSync(join(root, 'deploy', name), 'utf8')

type Panel = { title: string; type: string; description?: string; targets?: { expr: string }[] }
const dashboard: { panels: Panel[] } = JSON.parse(file('grafana-dashboard.json'))
const shown = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
const alerts = Array.from(file('prometheus-alerts.yml').matchAll(/^\s+expr: (.+)$/gm), ([, expr = '']) => expr)

/** Metrics that Prometheus itself has for each target. */
const OWN = ['up']

/** `name{label="x"}` and `by (label)` in PromQL: the metrics, and the labels that are selected or grouped by. */
function usedIn(expr: string): { metrics: readonly string[]; labels: readonly string[] } {
  const grouped = Array.from(expr.matchAll(/\bby \(([^)]*)\)/g), ([, list = '']) => list.split(/,\s*/)).flat()
  const selected = Array.from(expr.matchAll(/\{([^}]*)\}/g), ([, list = '']) =>
    Array.from(list.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g), ([, label = '']) => label),
  ).flat()
  const metrics = Array.from(expr.matchAll(/\b(?:breakfall_\w+|up)\b/g), ([name]) => name)
  return { metrics, labels: [...grouped, ...selected] }
}

/** Names and labels in Prometheus' text format. A metric without a sample has its name only. */
function served(text: string): ReadonlyMap<string, ReadonlySet<string>> {
  const out = new Map<string, Set<string>>()
  for (const [, name = '', kind] of text.matchAll(/^# TYPE (\w+) (\w+)$/gm))
    for (const ending of kind === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']) out.set(name + ending, new Set())
  for (const [, name = '', labels = ''] of text.matchAll(/^(\w+)\{([^}]*)\}/gm))
    for (const [, label = ''] of labels.matchAll(/(\w+)="/g)) out.get(name)?.add(label)
  return out
}

test('every metric and label of the dashboard and of the alerts is served', LIMIT, async (t) => {
  await using rig = await Rig.start()
  const gateway = await startGateway({ upstream: rig.model.url, logger: false })
  t.after(() => gateway.close())
  rig.model.script('relayed', [cutAfter('Thr'), say('Through.')])
  const request = { model: 'relayed', stream: true, messages: [{ role: 'user', content: 'hi' }] }
  const relayed = await fetch(`${gateway.url}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request),
  })
  await relayed.text()

  const survivor = await rig.session([cutAfter('Let'), ask([bash('true')], 'Let me see.'), say('Done.')])
  const { last } = await rig.wholeTurn(survivor.id)
  assert.equal(last.type, 'turn-end')
  const loser = await rig.session([refuse(400, { message: 'no' })])
  assert.equal((await rig.wholeTurn(loser.id)).last.type, 'turn-error')
  const waiting = await rig.session([refuse(401, { message: 'who are you' })])
  const parked = await rig.turn(waiting.id)
  await eventually('a parked turn', () => parked.events.events.some(({ type }) => type === 'parked'))

  const runner: { url: string } = JSON.parse(readFileSync(join(rig.stateDir, 'runner/runner.json'), 'utf8'))
  const [token = ''] = readFileSync(join(rig.stateDir, 'runner.token'), 'utf8').trim().split(/\s/)
  const texts = await Promise.all([
    rig.call('GET', '/metrics').then(({ text }) => text),
    fetch(`${runner.url}/metrics`, { headers: { authorization: `Bearer ${token}` } }).then((answer) => answer.text()),
    fetch(new URL('/metrics', gateway.url)).then((answer) => answer.text()),
  ])
  const [daemonText] = texts
  assert.match(daemonText, /breakfall_turns_parked\{category="model_auth_failed"\} 1/)
  assert.match(daemonText, /breakfall_faults_survived_total 1/)
  assert.match(daemonText, /breakfall_faults_lost_total\{category="model_bad_request"\} 1/)
  assert.match(daemonText, /breakfall_first_token_seconds_count 2/, 'both steps of the first turn had a first word')
  assert.match(daemonText, /breakfall_lease_held 1/)

  const all = served(texts.join('\n'))
  const GIVEN = ['le', 'instance', 'job'] // `le` of histograms; the others are added by Prometheus
  for (const expr of [...shown, ...alerts]) {
    const { metrics, labels } = usedIn(expr)
    assert.ok(metrics.length > 0, expr)
    for (const metric of metrics) assert.ok(OWN.includes(metric) || all.has(metric), `${metric} in ${expr}`)
    const known = metrics.flatMap((metric) => [...(all.get(metric) ?? [])])
    const isSampled = metrics.some((metric) => (all.get(metric)?.size ?? 0) > 0)
    for (const label of labels)
      assert.ok(!isSampled || GIVEN.includes(label) || known.includes(label), `${label} in ${expr}`)
  }
})

test('the dashboard shows what the operators ask for, and every alert says what happens and what to do', () => {
  const text = [...shown, ...alerts].join('\n')
  for (const metric of [
    'breakfall_turns_parked',
    'breakfall_faults_survived_total',
    'breakfall_faults_lost_total',
    'breakfall_first_token_seconds_bucket',
    'breakfall_turn_budget_left_ratio',
    'breakfall_lease_remaining_seconds',
    'breakfall_store_connections',
    'breakfall_gateway_upstream_healthy',
  ])
    assert.ok(text.includes(metric), metric)
  const rules = file('prometheus-alerts.yml')
    .split(/^\s+- alert: /m)
    .slice(1)
  assert.equal(rules.length, alerts.length)
  for (const rule of rules) assert.match(rule, /severity: \w+[\s\S]*summary: .+\n\s+description: .+/)
})
