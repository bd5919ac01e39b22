/** What the staged fleet answers besides sessions and events. */
import { readFileSync } from 'node:fs'
import { FAULTS } from '@breakfall/faults'
import type { GatewaySnapshot } from '@breakfall/gateway'
import { IDS } from './stage-ids.ts'

type Json = Readonly<Record<string, unknown>>
type Answer = { readonly status?: number; readonly json: unknown }

const iso = (ms: number): string => new Date(ms).toISOString()

export const systemAt = (now: number): Json => ({
  startedAt: iso(now - 86_400_000),
  tokenFile: '/home/ada/.local/state/breakfall/daemon.token',
  stateDir: '/home/ada/.local/state/breakfall',
  journal: { bytes: 18_400_000, freeBytes: 81_000_000_000, isFull: false, quarantined: 1 },
  turns: { driven: 3, parked: 2 },
  runner: {
    state: 'connected',
    url: 'http://127.0.0.1:41231',
    runnerId: '01a1e6cd-f025-798e-b2b7-9c07913b0e80',
    since: iso(now - 86_000_000),
    isolation: 'bwrap',
  },
  model: {
    name: 'qwen3-coder',
    baseUrl: 'http://127.0.0.1:8080/v1',
    profile: 'llama-cpp',
    fallbacks: [
      { name: 'qwen3-coder-small', baseUrl: 'http://127.0.0.1:8081/v1' },
      { name: 'cloud/sonnet', baseUrl: 'https://api.example.com/v1' },
    ],
    serve: {
      status: 'ready',
      pid: 4711,
      attempt: 2,
      line: 'main: server is listening on http://127.0.0.1:8080',
      lastExit: {
        kind: 'signal',
        code: null,
        signal: 'SIGKILL',
        phase: 'running',
        uptimeMs: 5_412_000,
        headline: 'The kernel killed it: out of memory',
        diagnoses: [
          {
            id: 'out_of_memory',
            rank: 'cause',
            message: 'The context did not fit into memory.',
            advice: 'Start it with a smaller --ctx-size, or with --n-gpu-layers.',
            retry: 'after_change',
            evidence: [],
            count: 1,
          },
        ],
        tail: ['llama_kv_cache: failed to allocate 5368709120 bytes', 'main: error: unable to load model'],
      },
    },
  },
  workspaces: ['/home/ada/src'],
  ...daemons(now),
  ...runners(now),
  gateway: true,
  chaos: true,
})

export function answerAt(now: number, method: string, path: string): Answer | undefined {
  if (method === 'POST' && /\/(?:resume|cancel|approve)$/.test(path)) return { status: 202, json: {} }
  if (path === `/v1/sessions/${IDS.finished}/checkpoints`) return { json: CHECKPOINTS }
  if (method === 'POST' && path.endsWith('/undo')) return { json: UNDO }
  if (path === '/v1/mcp/tracker/restart') return { status: 202, json: servers(now)[0] }
  const [, fingerprint] = /^\/v1\/faults\/seen\/(.+)$/.exec(path) ?? []
  if (fingerprint !== undefined) return { json: occurrences(now, fingerprint) }
  if (/^\/v1\/faults\/(?!seen)/.test(path)) return { json: CATEGORY }
  const json = ANSWERS[path]?.(now)
  return json === undefined ? undefined : { json }
}

// ---- details, in the order they are used above ----

const servers = (now: number): readonly Json[] => [
  { name: 'tracker', state: 'ready', tools: 7, since: iso(now - 400_000), era: '2025-11-25' },
  {
    name: 'browser',
    state: 'restarting',
    tools: 0,
    since: iso(now - 4_000),
    era: null,
    lastExit: { code: 1, signal: null, error: "Error: Cannot find module 'playwright'" },
    error: "It ended before it answered: Error: Cannot find module 'playwright'. Breakfall restarts it.",
  },
]

const CHECKPOINTS = {
  mode: 'auto',
  checkpoints: [
    {
      id: 'c1',
      at: '2026-11-18T00:00:00.000Z',
      label: null,
      kind: 'taken',
      files: 3,
      bytes: 812,
      tookMs: 4,
      during: [],
      left: [],
      turnId: 't1',
    },
  ],
  skipped: [],
  bytes: 4_096,
}

const UNDO = {
  restored: 1,
  removed: 0,
  safety: null,
  files: [{ path: 'slug.sh', change: 'changed', bytes: 48 }],
  conflicts: [],
  skipped: [],
  checkpoint: 'c1',
  turnId: 't1',
}

const FLAGS = { userns: true, pidns: true, netns: true, memoryLimit: true, pidsLimit: true }

const boxes = (now: number): Json => ({
  boxes: [
    {
      id: IDS.running,
      state: 'running',
      createdAt: iso(now - 95_000),
      workspace: { kind: 'host', path: '/home/ada/src/app' },
      isolation: { level: 'bwrap', ...FLAGS },
      limits: { memoryMb: 2_048, pids: 512, cpus: 2, execsMax: 8 },
      network: 'none',
      lastTransition: { at: iso(now - 94_000), from: 'creating', to: 'running' },
      autoStart: true,
      execs: [
        {
          execId: 'e1',
          boxId: IDS.running,
          state: 'running',
          command: ['sh', '-c', 'npm test'],
          startedAt: iso(now - 2_000),
          endedAt: null,
          stdoutBytes: 812,
          stderrBytes: 0,
          lastSeq: 4,
          exit: null,
        },
      ],
    },
  ],
})

const daemons = (now: number): Json => ({
  daemons: (['bf-1', 'bf-2', 'bf-3'] as const).map((name, index) => ({
    bootId: `01a1e6cd-0000-7000-8000-00000000000${index}`,
    name,
    url: `http://10.0.0.${index + 1}:7878`,
    version: '0.1.0',
    configHash: 'c0ffee',
    state: index === 2 ? 'draining' : 'live',
    leaseUntil: iso(now + 15_000),
    held: [412, 388, 9][index],
    places: 1_000,
    startedAt: iso(now - 86_400_000 * (index + 1)),
  })),
})

const runners = (now: number): Json => ({
  runners: [
    {
      runnerId: '01a1e6cd-f025-798e-b2b7-9c07913b0e80',
      bootId: 'b1',
      url: 'http://10.0.0.9:7879',
      state: 'live',
      verifiedAt: iso(now - 86_000_000),
      lastSeen: iso(now - 2_000),
      capacity: 64,
      boxes: 12,
      labels: [],
      workspaces: [],
      isolation: 'bwrap',
      version: '0.1.0',
    },
  ],
})

const chaos = (now: number): Json => ({
  plan: {},
  waiting: 0,
  injections: [
    {
      at: iso(now - 61_000),
      request: 4,
      attempt: 1,
      fault: { kind: 'reset' },
      events: 4,
      bytes: 812,
      outcome: 'injected',
    },
    {
      at: iso(now - 30_000),
      request: 9,
      attempt: 1,
      fault: { kind: 'status', status: 503 },
      events: 0,
      bytes: 0,
      outcome: 'injected',
    },
  ],
})

const stream = (now: number, requestId: string) => ({
  requestId,
  path: '/v1/chat/completions',
  model: 'gpt-oss-120b',
  stream: true,
  startedAt: iso(now - 12_000),
  upstream: 'http://127.0.0.1:8080/v1',
})

const gateway = (now: number): GatewaySnapshot => ({
  at: iso(now),
  totals: { requests: 812, attempts: 861, faults: 49, healed: 41, lost: 1, unhealed: 0, repaired: 0 },
  live: [
    {
      ...stream(now, 'r1'),
      state: 'waiting',
      attempt: 2,
      bytes: 18_211,
      lastFault: 'model_stream_interrupted',
      nextAt: iso(now + 9_000),
    },
    { ...stream(now, 'r2'), state: 'answering', attempt: 1, bytes: 2_048, lastFault: null, nextAt: null },
  ],
  upstreams: [
    { url: 'http://127.0.0.1:8080/v1', isHealthy: true, failuresInARow: 0, lastFault: 'model_stream_interrupted' },
  ],
  recent: [
    {
      at: iso(now - 9_000),
      requestId: 'r0',
      kind: 'healed',
      category: 'model_stream_interrupted',
      text: 'healed after 1.2 s: the stream broke, the answer was asked again',
    },
  ],
})

const QUIET = Array.from({ length: 24 }, () => 0)

const groups = (now: number): readonly Json[] => [
  {
    fingerprint: 'f1',
    category: 'model_stream_interrupted',
    class: 'transient',
    boundary: 'model',
    phase: 'stream',
    title: FAULTS.model_stream_interrupted.title,
    sample: sample(now - 8_000, 'TypeError: terminated: read ECONNRESET'),
    count: 91,
    sessions: 4,
    firstAt: iso(now - 172_800_000),
    lastAt: iso(now - 8_000),
    survived: 90,
    parked: 0,
    ended: 0,
    open: 1,
    hours: [0, 0, 1, 0, 0, 2, 3, 1, 0, 0, 4, 9, 14, 8, 3, 1, 0, 0, 6, 11, 17, 7, 3, 1],
  },
  {
    fingerprint: 'f2',
    category: 'model_auth_failed',
    class: 'needs_action',
    boundary: 'model',
    phase: 'headers',
    title: FAULTS.model_auth_failed.title,
    sample: sample(now - 720_000, '401 invalid_api_key'),
    count: 1,
    sessions: 1,
    firstAt: iso(now - 720_000),
    lastAt: iso(now - 720_000),
    survived: 0,
    parked: 1,
    ended: 0,
    open: 0,
    hours: QUIET.with(23, 1),
  },
  {
    fingerprint: 'f3',
    category: 'exec_outcome_unknown',
    class: 'unknown_outcome',
    boundary: 'runner',
    phase: null,
    title: FAULTS.exec_outcome_unknown.title,
    sample: sample(now - 200_000, 'the runner is gone and kept no record of the exec'),
    count: 1,
    sessions: 1,
    firstAt: iso(now - 200_000),
    lastAt: iso(now - 200_000),
    survived: 0,
    parked: 0,
    ended: 0,
    open: 1,
    hours: QUIET.with(22, 1),
  },
]

const sample = (at: number, errorRaw: string): Json => ({
  error: 'The stream ended before the answer was complete.',
  errorRaw,
  sessionId: IDS.finished,
  turnId: 't1',
  seq: 12,
  at: iso(at),
})

const occurrences = (now: number, fingerprint: string): Json => ({
  group: groups(now).find((group) => group['fingerprint'] === fingerprint) ?? groups(now)[0],
  occurrences: [1, 2, 3].map((n) => ({
    at: iso(now - n * 90_000),
    sessionId: IDS.finished,
    sessionTitle: 'Fix the date parser',
    turnId: 't1',
    step: n + 1,
    attempt: 1,
    seq: n,
    became: 'survived',
    error: 'The stream ended before the answer was complete.',
    errorRaw: 'read ECONNRESET',
  })),
  next: 'more',
})

const CATEGORY = {
  category: 'model_overloaded',
  class: 'throttled',
  boundary: 'model',
  next: 'retry',
  http: 503,
  title: FAULTS.model_overloaded.title,
  docs: 'docs/faults/model_overloaded.md',
  page: readFileSync(new URL('../../../../docs/faults/model_overloaded.md', import.meta.url), 'utf8'),
}

const ANSWERS: Readonly<Record<string, (now: number) => unknown>> = {
  '/v1/boxes': boxes,
  '/v1/mcp': (now) => ({ servers: servers(now) }),
  '/v1/mcp/tracker': (now) => ({
    ...servers(now)[0],
    offered: [],
    refused: [],
    log: ['listening'],
  }),
  '/v1/chaos': chaos,
  '/v1/gateway': gateway,
  '/v1/faults/seen': (now) => ({ groups: groups(now) }),
}
