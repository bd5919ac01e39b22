/** The built-in tools: their descriptions for the model, and their arguments. */
import { Fault } from '@breakfall/faults'
import type { ToolSpec } from '@breakfall/model'
import type { ToolName } from '@breakfall/wire'
import { body, execBackgroundSchema, flag, integer, oneOf, parseRequest, text } from '@breakfall/wire/internal'
import { z } from 'zod'

export const BASH_LIMITS = { timeoutMs: 120_000, timeoutMsMax: 3_600_000 } as const
export const READ_LIMITS = { lines: 2_000, linesMax: 100_000 } as const

const TEXT_CHARS_MAX = 16 * 1024 * 1024
const path = text(4096, 'a path').describe('Relative to the workspace, or absolute inside it.')

const toolSchemas = {
  bash: body({
    command: text(512 * 1024, 'a shell command').describe('Run by sh in the workspace. Each call is a fresh shell.'),
    timeoutMs: integer(1, BASH_LIMITS.timeoutMsMax).optional().describe('Default 120000; none with background.'),
    background: z
      .union([flag(), execBackgroundSchema], { error: 'true, or {"name", "ready", "timeoutMs", "restart"}' })
      .optional()
      .describe(
        'For servers and watchers: it stays running after this call. Returns once it listens on ready.port or has printed ready.text.',
      ),
  }),
  read: body({
    path,
    offset: integer(1, 1_000_000_000).optional().describe('First line, from 1.'),
    limit: integer(1, READ_LIMITS.linesMax).optional().describe('Number of lines, default 2000.'),
  }),
  write: body({ path, content: text(TEXT_CHARS_MAX, 'the content').describe('Replaces the whole file.') }),
  edit: body({
    path,
    old: text(TEXT_CHARS_MAX, 'the text to replace')
      .refine((value) => value !== '', { error: 'a text that is not empty' })
      .describe('Must occur exactly once in the file.'),
    new: text(TEXT_CHARS_MAX, 'the new text'),
  }),
  process: body({
    action: oneOf(['list', 'output', 'stop']),
    id: text(128, 'the name or id of a process').optional().describe('Its name or id. Not for list.'),
  }),
} as const satisfies Record<ToolName, z.ZodType>

export type ToolArguments = { readonly [Name in ToolName]: z.infer<(typeof toolSchemas)[Name]> }

const DESCRIPTIONS: Readonly<Record<ToolName, string>> = {
  bash: 'Runs a shell command in the sandbox and returns its output and exit code.',
  read: 'Returns lines of a text file.',
  write: 'Writes a file, creating folders as needed. Replaces what was there.',
  edit: 'Replaces one exact piece of text in a file.',
  process:
    'Lists the background processes that bash started, with their ports; returns the newest output of one; or stops one.',
}

export const toolSpecs = (names: readonly ToolName[]): readonly ToolSpec[] => names.map((name) => SPECS[name]())

const specOf = (name: ToolName) => (): ToolSpec => {
  const { $schema: _, ...parameters } = z.toJSONSchema(toolSchemas[name], { io: 'input' })
  return { type: 'function', function: { name, description: DESCRIPTIONS[name], parameters } }
}

/** Made once, at the first use. */
const SPECS: Readonly<Record<ToolName, () => ToolSpec>> = {
  bash: once(specOf('bash')),
  read: once(specOf('read')),
  write: once(specOf('write')),
  edit: once(specOf('edit')),
  process: once(specOf('process')),
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => (made ??= { value: make() }).value
}

type ParsedCall = { [Name in ToolName]: { readonly tool: Name; readonly input: ToolArguments[Name] } }[ToolName]

/** Checked arguments of a tool that this session may use, or a fault whose message the model can act on. */
export function parseCall(tool: string, input: unknown, allowed: readonly ToolName[]): ParsedCall {
  const name = allowed.find((entry) => entry === tool)
  if (name === undefined) {
    const names = allowed.join(', ')
    throw new Fault('invalid_request', { error: `There is no tool ${tool.slice(0, 100)}. The tools are ${names}.` })
  }
  const schema: z.ZodType<unknown> = toolSchemas[name]
  return { tool: name, input: parseRequest(schema, input) } as ParsedCall
}
