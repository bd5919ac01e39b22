/** Every key of the configuration, once: which values it takes, and whether a folder's file may set it. */
import { API_NAMES, HOLDS, PROFILE_NAMES } from '@breakfall/model/names'
import { agentSchema, policySchema, SAME_FOLDER, TOOL_NAMES } from '@breakfall/wire'
import {
  body,
  environment,
  httpUrl,
  integer,
  label,
  modelFactsShape,
  oneOf,
  providerName,
  text,
} from '@breakfall/wire/internal'
import { z } from 'zod'

const variableName = z
  .string({ error: 'the name of an environment variable' })
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'the name of an environment variable' })
const commandLine = z
  .array(text(4096), { error: 'a list of strings' })
  .min(1, { error: 'a list that starts with the program' })
/** Each start chooses a free port, so the command has to say where the port goes. */
const serveCommand = commandLine.refine(([, ...args]) => args.some((arg) => arg.includes('{port}')), {
  error: 'a command with {port} in an argument, such as "--port", "{port}": each start fills in a free port',
})

const databaseUrl = text(4096, 'a PostgreSQL URL: postgres://HOST/DATABASE').refine(
  (url) => /^postgres(?:ql)?:\/\//.test(url) && URL.canParse(url),
  { error: 'a PostgreSQL URL: postgres://HOST/DATABASE' },
)

const modelShape = {
  baseUrl: httpUrl.optional(),
  name: text(200, "a model's name")
    .refine((name) => name !== '', { error: "a model's name" })
    .optional(),
  api: oneOf(API_NAMES).optional(),
  apiKeyEnv: variableName.optional(),
  profile: oneOf(PROFILE_NAMES).optional(),
  ...modelFactsShape,
}

const serve = body({
  command: serveCommand,
  healthPath: text(200, 'a path that starts with a slash')
    .refine((path) => path.startsWith('/'), { error: 'a path that starts with a slash' })
    .optional(),
  readyMs: integer(1_000, 86_400_000).optional(),
  env: environment().optional(),
})

/** A name that is part of tool names. */
const outsideName = z.string().regex(/^[A-Za-z](?:[A-Za-z0-9-]|_(?=[A-Za-z0-9-])){0,31}$/, {
  error: 'a name of letters, digits, - and single _, up to 32 characters',
})

const toolName = z
  .string()
  .regex(/^(?!mcp__)[A-Za-z][\w-]{0,63}$/, { error: 'a name of letters, digits, _ and -, up to 64 characters' })
  .refine((name) => !TOOL_NAMES.some((known) => known === name), { error: 'a name that no built-in tool has' })

const mcpServer = body({
  command: z
    .union([text(4096, 'a program').refine((word) => word !== ''), commandLine], {
      error: 'a program, or a list that starts with one',
    })
    .optional(),
  url: httpUrl.optional(),
  args: z.array(text(65_536), { error: 'a list of strings' }).optional(),
  env: environment().optional(),
  cwd: text(4096, 'a path').optional(),
  headersEnv: z
    .record(z.string().regex(/^[\w-]+$/, { error: 'the name of a header' }), variableName, {
      error: 'a table of headers and the variables that hold them',
    })
    .optional(),
  tools: z.array(text(200, 'the name of a tool'), { error: 'a list of tools' }).optional(),
  trust: z
    .union([z.boolean(), z.array(text(200, 'the name of a tool'))], { error: 'true, false or a list of tools' })
    .optional(),
  startMs: integer(100, 3_600_000).optional(),
  callMs: integer(100, 86_400_000).optional(),
  awayMs: integer(0, 3_600_000).optional(),
}).refine(({ command, url }) => (command === undefined) !== (url === undefined), {
  error: 'a table with either command or url',
})

const customTool = body({
  command: commandLine,
  schema: z.record(z.string(), z.unknown(), { error: 'a JSON schema' }).optional(),
  effect: oneOf(['pure', 'idempotent', 'unsafe']).optional(),
  description: text(8_192, 'a description').optional(),
})

const { name: _modelName, ...providerShape } = modelShape

const sections = {
  model: body({
    ...modelShape,
    fallback: z.array(body(modelShape), { error: 'a list of tables: [[model.fallback]]' }).optional(),
    serve: serve.optional(),
  }),
  providers: z.record(providerName(), body({ ...providerShape, serve: serve.optional() }), {
    error: 'a table for each provider: [providers.NAME]',
  }),
  runner: body({
    url: httpUrl.optional(),
    tokenFile: text(4096, 'a path').optional(),
    resolveCommand: commandLine.optional(),
    resolveUrl: httpUrl.optional(),
    isolation: oneOf(['bwrap', 'process']).optional(),
    allowWorkspace: z.array(text(4096, 'a path'), { error: 'a list of folders' }).optional(),
    boxesMax: integer(1, 1_000_000).optional(),
    join: z.array(httpUrl, { error: 'a list of addresses of daemons' }).optional(),
    advertise: httpUrl.optional(),
    advertiseCommand: commandLine.optional(),
    labels: z.array(label(), { error: 'a list of labels' }).optional(),
    capacity: integer(1, 1_000_000).optional(),
  }),
  remote_runner: body({ endpoint: httpUrl }),
  policy: policySchema,
  limits: body({
    memoryMb: integer(16, 65_536).optional(),
    pids: integer(4, 32_768).optional(),
    cpus: integer(1, 256).optional(),
    execsMax: integer(1, 1_000).optional(),
  }),
  box: body({
    env: environment().optional(),
    passEnv: z.array(variableName, { error: 'a list of names of environment variables' }).optional(),
    mounts: z.array(text(4096, 'DIR or DIR:rw'), { error: 'a list of DIR or DIR:rw' }).optional(),
    network: z
      .union([text(4096, 'a network'), z.array(text(300, 'a name'))], {
        error: '"none", "host", a preset or a list of names',
      })
      .optional(),
    home: oneOf(['real', 'private']).optional(),
    checkpoints: oneOf(['auto', 'manual', 'off']).optional(),
  }),
  agent: agentSchema,
  run: body({
    sameFolder: oneOf(SAME_FOLDER).optional(),
    tools: z.array(text(200, 'the name of a tool'), { error: 'a list of tools' }).optional(),
  }),
  mcp: z.record(outsideName, mcpServer, { error: 'a table for each MCP server: [mcp.NAME]' }),
  tools: z.record(toolName, customTool, { error: 'a table for each tool: [tools.NAME]' }),
  daemon: body({
    port: integer(0, 65_535).optional(),
    stateDir: text(4096, 'a path').optional(),
    store: databaseUrl.optional(),
    name: text(100, 'a name').optional(),
    leaseMs: integer(1_000, 3_600_000).optional(),
    drainMs: integer(0, 3_600_000).optional(),
    hintsUrl: databaseUrl.optional(),
  }),
  fleet: body({
    keyFile: text(4096, 'a path').optional(),
    keepDays: integer(1, 3_650).optional(),
    replaceAfterMs: integer(1_000, 2 ** 31 - 1).optional(),
  }),
  retention: body({
    sessionDays: integer(1, 3_650).optional(),
    sessionsMax: integer(1, 1_000_000_000).optional(),
    bytesMax: integer(1_048_576, Number.MAX_SAFE_INTEGER).optional(),
  }),
  telemetry: body({ otlpEndpoint: httpUrl.optional() }),
  gateway: body({ upstream: httpUrl.optional(), hold: oneOf(HOLDS).optional() }),
}

export const configSchema = body({
  model: sections.model.optional(),
  providers: sections.providers.optional(),
  runner: sections.runner.optional(),
  remote_runner: sections.remote_runner.optional(),
  policy: sections.policy.optional(),
  limits: sections.limits.optional(),
  box: sections.box.optional(),
  agent: sections.agent.optional(),
  run: sections.run.optional(),
  mcp: sections.mcp.optional(),
  tools: sections.tools.optional(),
  daemon: sections.daemon.optional(),
  fleet: sections.fleet.optional(),
  retention: sections.retention.optional(),
  telemetry: sections.telemetry.optional(),
  gateway: sections.gateway.optional(),
})

export type Config = z.infer<typeof configSchema>

/** A folder's file comes with a clone, so it must not set commands, URLs or keys, or let a box see or reach more. */
export function isSafeForFolder(path: readonly string[]): boolean {
  const [section, key] = path
  if (section === 'box') return key === 'env'
  if (section === 'policy') return key !== 'approve' && key !== 'approveMsMax' // a clone must not switch off questions
  if (section === 'run') return key === 'tools' // it can only leave tools out
  return section === 'limits' || (section === 'model' && key === 'name' && path.length === 2)
}

export function isKnownKey([section = '', key = '', inner = '']: readonly string[]): boolean {
  const found = Object.entries(sections).find(([name]) => name === section)?.[1]
  if (found === undefined) return false
  return 'shape' in found ? Object.hasOwn(found.shape, key) : Object.hasOwn(found.valueType.shape, inner)
}

/** Which environment variable sets which key: `BREAKFALL_MODEL_BASE_URL` sets `model.baseUrl`. Lists of tables have no variable. */
export function variables(): ReadonlyMap<string, readonly [section: string, key: string]> {
  const out = new Map<string, readonly [string, string]>()
  for (const [section, table] of Object.entries(sections)) {
    if (!('shape' in table)) continue // a provider's name is not part of a variable's
    for (const key of Object.keys(table.shape)) {
      if (section === 'model' && (key === 'fallback' || key === 'serve')) continue
      if (section === 'box' && key === 'env') continue // a table
      out.set(`BREAKFALL_${section}_${key.replace(/[A-Z]/g, (c) => `_${c}`)}`.toUpperCase(), [section, key])
    }
  }
  out.set('BREAKFALL_MODEL', ['model', 'name'])
  return out
}

/** The keys of the table that the path's last key belongs to. */
export function siblingKeys(path: readonly string[]): readonly string[] {
  let schema: unknown = configSchema
  for (const key of path.slice(0, -1)) {
    schema = withoutOptional(schema)
    if (schema instanceof z.ZodArray) schema = schema.element
    else if (schema instanceof z.ZodRecord) schema = schema.valueType
    else schema = schema instanceof z.ZodObject ? schema.shape[key] : undefined
  }
  const table = withoutOptional(schema)
  return table instanceof z.ZodObject ? Object.keys(table.shape) : []
}

const withoutOptional = (schema: unknown): unknown => (schema instanceof z.ZodOptional ? schema.unwrap() : schema)
