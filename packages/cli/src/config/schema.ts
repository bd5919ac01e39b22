/** Every key of the configuration, once: what it takes, and whether a cloned folder's file may set it. */
import { body, id, integer, oneOf, policySchema, text } from '@breakfall/wire'
import { z } from 'zod'

const url = z
  .string({ error: 'an http or https URL' })
  .refine((value) => /^https?:\/\/[^\s/]+/.test(value) && URL.canParse(value), { error: 'an http or https URL' })
const words = z.array(text(4096), { error: 'a list of strings' }).min(1, { error: 'a list with at least the program' })

export const MODEL_APIS = ['openai-chat', 'anthropic-messages'] as const
export const MODEL_PROFILES = [
  'openai',
  'anthropic',
  'vllm',
  'sglang',
  'llama-cpp',
  'ollama',
  'deepseek',
  'mistral',
  'openrouter',
  'generic',
] as const
export const HOLDS = ['tools', 'answer', 'none'] as const

const modelShape = {
  baseUrl: url.optional(),
  name: text(200, "a model's name")
    .refine((name) => name !== '', { error: "a model's name" })
    .optional(),
  api: oneOf(MODEL_APIS).optional(),
  apiKeyEnv: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'the name of an environment variable' })
    .optional(),
  profile: oneOf(MODEL_PROFILES).optional(),
}

export const configSchema = body({
  model: body({
    ...modelShape,
    fallback: z.array(body(modelShape), { error: 'a list of tables: [[model.fallback]]' }).optional(),
    serve: body({ command: words }).optional(),
  }).optional(),
  runner: body({
    url: url.optional(),
    tokenFile: text(4096, 'a path').optional(),
    resolveCommand: words.optional(),
    resolveUrl: url.optional(),
    isolation: oneOf(['bwrap', 'process']).optional(),
    allowWorkspace: z.array(text(4096, 'a path'), { error: 'a list of folders' }).optional(),
    prefix: id('a tenant name').optional(),
  }).optional(),
  remote_runner: body({ endpoint: url }).optional(),
  policy: policySchema.optional(),
  limits: body({
    memoryMb: integer(16, 65_536).optional(),
    pids: integer(4, 32_768).optional(),
    cpus: integer(1, 256).optional(),
    execsMax: integer(1, 1_000).optional(),
  }).optional(),
  daemon: body({ port: integer(0, 65_535).optional(), stateDir: text(4096, 'a path').optional() }).optional(),
  gateway: body({ upstream: url.optional(), hold: oneOf(HOLDS).optional() }).optional(),
})

export type Config = z.infer<typeof configSchema>

/** What a folder's file may set. It comes with a clone: no commands, no URLs, no keys. */
export function isHarmless(path: readonly string[]): boolean {
  const [section, key] = path
  return section === 'policy' || section === 'limits' || (section === 'model' && key === 'name' && path.length === 2)
}

/** Keys that have a variable of their own: `model.baseUrl` is `BREAKFALL_MODEL_BASE_URL`. Lists of tables have none. */
export function variables(): ReadonlyMap<string, readonly [section: string, key: string]> {
  const out = new Map<string, readonly [string, string]>()
  for (const [section, schema] of Object.entries(configSchema.shape)) {
    const { shape } = schema.unwrap() as z.ZodObject
    for (const key of Object.keys(shape)) {
      if (section === 'model' && (key === 'fallback' || key === 'serve')) continue
      out.set(`BREAKFALL_${section}_${key.replace(/[A-Z]/g, (c) => `_${c}`)}`.toUpperCase(), [section, key])
    }
  }
  return out
}

/** The keys that there are beside the last one of a path: `['model', 'fallback', '0', 'url']` has those of a model. */
export function keysBeside(path: readonly string[]): readonly string[] {
  let schema: unknown = configSchema
  for (const key of path.slice(0, -1)) {
    schema = unwrapped(schema)
    if (schema instanceof z.ZodArray) schema = schema.element
    else schema = schema instanceof z.ZodObject ? (schema.shape as Record<string, unknown>)[key] : undefined
  }
  const table = unwrapped(schema)
  return table instanceof z.ZodObject ? Object.keys(table.shape) : []
}

const unwrapped = (schema: unknown): unknown => (schema instanceof z.ZodOptional ? schema.unwrap() : schema)
