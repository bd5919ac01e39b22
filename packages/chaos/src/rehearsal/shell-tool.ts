/** Finds the tool with which an agent runs shell commands, whatever its name, and fills in its arguments. Pure. */
import { isObject } from '@breakfall/faults/internal'
import type { OfferedTool } from './apis.ts'

export type ShellTool = {
  readonly name: string
  arguments(command: string): Record<string, unknown>
  /** The command of a call that was made with such arguments. */
  commandIn(given: Readonly<Record<string, unknown>>): string
}

/** The best match first: an exact name, then the usual names, then anything that sounds like a shell. */
const NAMES: readonly RegExp[] = [
  /^(?:bash|shell|sh|terminal)$/i,
  /^(?:run|execute|exec)[_-]?(?:shell[_-]?|terminal[_-]?|bash[_-]?)?(?:command|cmd)$/i,
  /shell|bash|terminal|command|exec/i,
]
const COMMAND_FIELDS = ['command', 'cmd', 'commandLine', 'script', 'commands']

export function shellToolOf(tools: readonly OfferedTool[]): ShellTool | undefined {
  for (const name of NAMES) {
    const tool = tools.find((one) => name.test(one.name) && commandField(one) !== undefined)
    if (tool === undefined) continue
    return {
      name: tool.name,
      arguments: (command) => argumentsOf(tool, command),
      commandIn: (given) => commandOf(given[commandField(tool) ?? '']),
    }
  }
  return undefined
}

// ---- details ----

const TIMEOUT_MS = 60_000

const propertiesOf = ({ schema }: OfferedTool): Readonly<Record<string, unknown>> =>
  isObject(schema['properties']) ? schema['properties'] : {}

const commandField = (tool: OfferedTool): string | undefined =>
  COMMAND_FIELDS.find((field) => Object.hasOwn(propertiesOf(tool), field))

function argumentsOf(tool: OfferedTool, command: string): Record<string, unknown> {
  const properties = propertiesOf(tool)
  const field = commandField(tool) ?? 'command'
  const required: unknown[] = Array.isArray(tool.schema['required']) ? tool.schema['required'] : []
  const others = required.map(String).filter((name) => name !== field)
  return {
    [field]: typeOf(properties[field]) === 'array' ? ['bash', '-lc', command] : command,
    ...Object.fromEntries(others.map((name) => [name, valueFor(name, properties[name])])),
  }
}

function commandOf(value: unknown): string {
  const parts: unknown[] = Array.isArray(value) ? value : [value]
  const last = parts.at(-1)
  return typeof last === 'string' ? last : ''
}

/** Gemini writes its types in capitals; a type may also be a list with null. */
function typeOf(schema: unknown): string {
  const type: unknown = isObject(schema) ? schema['type'] : undefined
  const names: unknown[] = Array.isArray(type) ? type : [type]
  const name = names.find((one) => typeof one === 'string' && one !== 'null')
  return typeof name === 'string' ? name.toLowerCase() : 'string'
}

function valueFor(name: string, schema: unknown): unknown {
  const { enum: values, default: given, minimum }: Readonly<Record<string, unknown>> = isObject(schema) ? schema : {}
  if (given !== undefined) return given
  if (Array.isArray(values)) return values.at(0)
  switch (typeOf(schema)) {
    case 'boolean':
      return false
    case 'integer':
    case 'number':
      return /time/i.test(name) ? TIMEOUT_MS : (minimum ?? 0)
    case 'array':
      return []
    case 'object':
      return {}
    default:
      return 'Runs the next step'
  }
}
