/** The runner's API: boxes, execs, their events and files. */
import { z } from 'zod'
import { CHECKPOINT_MODES } from './checkpoint-api.ts'
import { diagnosticSchema } from './fault-schema.ts'
import { ARGUMENT_CHARS_MAX, body, environment, flag, id, integer, oneOf, record, text, time } from './fields.ts'

export const BOX_STATES = ['creating', 'running', 'stopping', 'stopped', 'removing', 'failed'] as const
export const ISOLATION_LEVELS = ['bwrap', 'process'] as const
const NETWORKS = ['none', 'host'] as const
const HOMES = ['real', 'private'] as const
export const EXEC_STATES = ['starting', 'running', 'exited'] as const
export const EXEC_CAUSES = [
  'exited',
  'signaled',
  'timed_out',
  'oom_killed',
  'killed',
  'box_stopped',
  'output_limit',
  'spawn_failed',
  'runner_lost',
] as const
export const SPAWN_FAILURES = [
  'not_found',
  'not_executable',
  'bad_interpreter',
  'cwd_missing',
  'cwd_not_directory',
  'argument_too_long',
  // Only in an exit record, if the failure showed after the start was confirmed:
  'no_process', // the machine or the box had no process left
  'no_space', // for the record that must be written before it may run
  'sandbox_failed',
] as const
export const EXEC_SIGNALS = [
  'SIGHUP',
  'SIGINT',
  'SIGQUIT',
  'SIGUSR1',
  'SIGUSR2',
  'SIGTERM',
  'SIGCONT',
  'SIGSTOP',
  'SIGTSTP',
  'SIGWINCH',
  'SIGKILL',
] as const

export type BoxState = (typeof BOX_STATES)[number]
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number]
/** The names that a box may reach: `packages.example.org`, `*.example.org:22`, `preset:npm`. */
const allowList = z
  .array(text(300, 'a name'), { error: 'a list of names' })
  .max(256, { error: 'a list of at most 256 names' })

export const networkAllowSchema = body({ allow: allowList })

const networkInput = z.union([z.enum(NETWORKS), networkAllowSchema], {
  error: '"none", "host" or {"allow": a list of names}',
})
export type Network = z.infer<typeof networkInput>
export type ExecCause = (typeof EXEC_CAUSES)[number]
export type SpawnFailure = (typeof SPAWN_FAILURES)[number]

// ---- boxes ----

const absolutePath = (what: string) =>
  text(4096, what).refine((path) => path.startsWith('/'), { error: what.replace('the path', 'the absolute path') })

export const boxCreateSchema = body({
  id: id('a box id').optional(),
  workspace: absolutePath('the path of a host folder').optional(),
  env: environment().optional(),
  isolation: body({
    min: oneOf(ISOLATION_LEVELS).optional(),
    level: oneOf(ISOLATION_LEVELS).optional().describe('exactly this level; refused if the runner does not offer it'),
  }).optional(),
  limits: body({
    memoryMb: integer(16, 65_536).optional(),
    pids: integer(4, 32_768).optional(),
    cpus: integer(1, 256).optional(),
    execsMax: integer(1, 1_000).optional(),
    processesMax: integer(0, 100).optional().describe('background processes at once'),
  }).optional(),
  network: networkInput.optional(),
  home: oneOf(HOMES).optional(),
  mounts: z
    .array(body({ path: absolutePath('the path of a host folder'), mode: oneOf(['ro', 'rw']).optional() }), {
      error: 'a list of {"path", "mode"}',
    })
    .max(64, { error: 'a list of at most 64 mounts' })
    .optional(),
  grant: text(200, 'a grant')
    .optional()
    .describe('a signature of `breakfall run`: the user of this machine allows these folders for this box'),
  autoStart: flag().optional(),
  checkpoints: oneOf(CHECKPOINT_MODES).optional().describe('default off'),
})
export type BoxCreate = z.infer<typeof boxCreateSchema>

const isolationSchema = record({
  level: z.enum(ISOLATION_LEVELS),
  userns: z.boolean(),
  pidns: z.boolean(),
  netns: z.boolean(),
  memoryLimit: z.boolean(),
  pidsLimit: z.boolean(),
  cpuLimit: z.boolean().optional(),
  sharedNetwork: z.boolean().optional().describe('execs of the box can reach each other on loopback'),
  seccomp: z.boolean().optional().describe('a filter denies system calls that namespaces do not contain'),
})

export const processSchema = record({
  execId: z.string(),
  name: z.string(),
  state: z.enum(['starting', 'running', 'restarting']).describe('restarting: it failed, and waits to be started again'),
  ports: z.array(z.int()).readonly(),
})
export type BoxProcess = z.infer<typeof processSchema>

export const boxSchema = record({
  id: z.string(),
  state: z.enum(BOX_STATES),
  createdAt: time,
  workspace: record({ kind: z.enum(['private', 'host']), path: z.string() }),
  isolation: isolationSchema,
  limits: record({
    memoryMb: z.int().nullable(),
    pids: z.int().nullable(),
    cpus: z.number().nullable(),
    execsMax: z.int().nullable(),
    processesMax: z.int().nullable().optional(),
  }),
  network: z.union([z.enum(NETWORKS), record({ allow: z.array(z.string()) })]),
  autoStart: z.boolean(),
  home: record({
    path: z.string(),
    windows: z.array(z.string()).readonly().describe('read-only folders and files of toolchains'),
    left: z
      .array(record({ path: z.string(), because: z.string() }))
      .readonly()
      .describe('PATH entries that the box cannot see'),
  }).optional(),
  mounts: z
    .array(record({ path: z.string(), mode: z.enum(['ro', 'rw']) }))
    .readonly()
    .optional(),
  processes: z.array(processSchema).readonly().optional().describe('background processes'),
  checkpoints: z.enum(CHECKPOINT_MODES).optional(),
  about: z.array(z.string()).readonly().optional().describe('the box in sentences, for a model'),
  lastTransition: record({ at: time, from: z.enum(BOX_STATES), to: z.enum(BOX_STATES) }),
})
export type Box = z.infer<typeof boxSchema>

export const boxListSchema = record({ boxes: z.array(boxSchema), next: z.string().optional() })

// ---- execs ----

export const EXEC_DEFAULTS = {
  cwd: '.',
  stdin: 'none',
  timeoutMs: 3_600_000, // an exec without a limit ends within the hour
  killGraceMs: 2_000,
  merge: false,
  outputBytesMax: 104_857_600,
} as const

/** How a background process is started, and when it counts as ready. */
export const execBackgroundSchema = body({
  name: text(64, 'a name').optional(),
  ready: z
    .union([body({ port: integer(1, 65_535) }), body({ text: text(1_000, 'a text') })], {
      error: '{"port": a port} or {"text": what it prints}',
    })
    .optional(),
  timeoutMs: integer(0, 600_000).optional().describe('how long to wait until it is ready; default 30000'),
  restart: body({ max: integer(1, 100) })
    .optional()
    .describe('how often it is started again after it failed, each time as a new exec ID.2, ID.3 …'),
})

/** How long the answer to its start waits, unless the request says otherwise. */
export const BACKGROUND_READY_MS = 30_000

export const execRequestSchema = body({
  execId: id('an exec id').optional(),
  command: z
    .array(text(ARGUMENT_CHARS_MAX), { error: 'a list of strings' })
    .min(1, { error: 'a list with at least the program' })
    .max(10_000, { error: 'a list of at most 10000 strings' })
    .refine((command) => command[0] !== '', { error: 'a list whose first entry, the program, is not empty' })
    .optional(),
  shell: text(ARGUMENT_CHARS_MAX, 'a shell command').optional(),
  cwd: text(4096, 'a path')
    .refine((path) => path !== '', { error: 'a path that is not empty' })
    .optional(),
  env: environment().optional(),
  stdin: oneOf(['none', 'pipe']).optional(),
  timeoutMs: integer(1, 86_400_000).optional(),
  killGraceMs: integer(0, 60_000).optional(),
  merge: flag().optional(),
  outputBytesMax: integer(1, 10_737_418_240).optional(),
  background: z
    .union([z.literal(true), execBackgroundSchema], { error: 'true, or {"name", "ready", "timeoutMs", "restart"}' })
    .optional()
    .describe('it stays until it ends or its box stops; answered when it is ready, over, or the time is up'),
}).refine((request) => (request.command === undefined) !== (request.shell === undefined), {
  path: ['command'],
  error: 'a list of strings, unless shell is set',
})
export type ExecRequest = z.infer<typeof execRequestSchema>

export const execExitSchema = record({
  cause: z.enum(EXEC_CAUSES),
  started: z.boolean().nullable().describe('false: it certainly never ran; null: unknown'),
  code: z.int().nullable(),
  signal: z.string().nullable(),
  signalGuess: z.string().nullable(),
  durationMs: z.number(),
  survivors: z.array(record({ pid: z.int(), command: z.string() })).readonly(),
  stdoutBytes: z.int(),
  stderrBytes: z.int(),
  truncated: z.boolean(),
  diagnostics: z.array(diagnosticSchema).readonly(),
  reason: z.enum(SPAWN_FAILURES).optional(),
})
export type ExecExit = z.infer<typeof execExitSchema>

export const execSchema = record({
  execId: z.string(),
  boxId: z.string(),
  state: z.enum(EXEC_STATES),
  command: z.array(z.string()),
  startedAt: time.nullable(),
  endedAt: time.nullable(),
  stdoutBytes: z.int(),
  stderrBytes: z.int(),
  lastSeq: z.int(),
  exit: execExitSchema.nullable(),
  background: record({
    name: z.string(),
    ready: z.boolean(),
    readyMs: z.int().nullable(),
    ports: z.array(z.int()).readonly(),
    restarts: z.int(),
  }).optional(),
})
export type Exec = z.infer<typeof execSchema>

/** Whose calls a box accepts from now on. */
export const boxOwnerSchema = record({ epoch: z.int() })

export const boxNetworkSchema = record({
  mode: z.enum([...NETWORKS, 'allow']),
  allow: z.array(z.string()).readonly().describe('as requested'),
  names: z.array(z.string()).readonly().describe('the same with presets replaced by their names'),
  denied: z
    .array(
      record({
        name: z.string().describe('a name, or an address that was tried without one'),
        port: z.int().nullable().describe('null: it was looked up, and no more'),
        count: z.int(),
        lastAt: time,
        because: z.enum(['not_allowed', 'private_address', 'other_name', 'no_address']),
      }),
    )
    .readonly(),
})

export type BoxNetworkView = z.infer<typeof boxNetworkSchema>

export const boxPortCreateSchema = body({ port: integer(1, 65_535) })

export const boxPortSchema = record({
  port: z.int().describe('in the box'),
  url: z.string().describe("on the loopback of the runner's machine"),
})
export type BoxPort = z.infer<typeof boxPortSchema>

export const boxPortListSchema = record({ ports: z.array(boxPortSchema).readonly() })

export const processListSchema = record({ processes: z.array(processSchema) })

export const execListSchema = record({ execs: z.array(execSchema), next: z.string().optional() })

export const execSignalSchema = body({ signal: oneOf(EXEC_SIGNALS) })

const output = <const T extends 'stdout' | 'stderr'>(type: T) =>
  record({
    seq: z.int(),
    type: z.literal(type),
    offset: z.int(),
    data: z.string().optional().describe('valid UTF-8, cut at a character'),
    dataBase64: z.string().optional().describe('anything else'),
  })

export const execEventSchema = z.discriminatedUnion('type', [
  record({ seq: z.int(), type: z.literal('start'), execId: z.string(), pid: z.int(), at: time }),
  output('stdout'),
  output('stderr'),
  record({
    seq: z.int(),
    type: z.literal('gap'),
    stream: z.enum(['stdout', 'stderr']),
    from: z.int(),
    to: z.int(),
  }),
  record({ seq: z.int(), type: z.literal('ready'), ports: z.array(z.int()).readonly(), at: time }),
  execExitSchema.extend({ seq: z.int(), type: z.literal('exit') }),
  record({ seq: z.int(), type: z.literal('going-away') }),
])
export type ExecEvent = z.infer<typeof execEventSchema>

// ---- files, identity ----

export const fileListSchema = record({
  files: z.array(record({ path: z.string(), kind: z.string(), bytes: z.int(), modifiedAt: time })),
  next: z.string().optional(),
})

export const runnerHealthSchema = z.strictObject({
  status: z.literal('ok'),
  runnerId: z.string(),
  bootId: z.string(),
  version: z.string(),
})
