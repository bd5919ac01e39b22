/** The items of a Responses answer: what each type means to a client and to a healer. Pure. */
import { type JsonObject, objectOr } from '../lib/json.ts'

/**
 * `text`: its text goes out as it comes, and another attempt can be compared with it.
 * `whole`: goes out when it is complete, and another attempt may add one more like it: thoughts, and searches that change nothing.
 * `effect`: the provider runs it while it answers, and running it again could do something twice.
 * `call`: the client runs it, so it waits until the answer is proven.
 */
export type ItemKind = 'text' | 'whole' | 'effect' | 'call'

export function itemKind(item: JsonObject): ItemKind {
  const { type } = item
  if (typeof type !== 'string' || !Object.hasOwn(KINDS, type)) return 'call' // a type that we do not know may be one to run
  if (type === 'shell_call' && isContainer(item)) return 'effect'
  if (type === 'tool_search_call' && item['execution'] !== 'server') return 'call'
  return KINDS[type] ?? 'call'
}

/** How a call says that it is complete. */
export function callForm({ type }: JsonObject): 'json' | 'text' | 'item' {
  return type === 'function_call' ? 'json' : type === 'custom_tool_call' ? 'text' : 'item'
}

// ---- details ----

const KINDS: Readonly<Record<string, ItemKind>> = {
  message: 'text',
  reasoning: 'whole',
  compaction: 'whole',
  web_search_call: 'whole',
  file_search_call: 'whole',
  mcp_list_tools: 'whole',
  tool_search_call: 'whole',
  tool_search_output: 'whole',
  additional_tools: 'whole',
  code_interpreter_call: 'effect',
  image_generation_call: 'effect',
  mcp_call: 'effect',
  program: 'effect',
  program_output: 'effect',
  shell_call_output: 'effect',
  function_call: 'call',
  custom_tool_call: 'call',
  local_shell_call: 'call',
  shell_call: 'call',
  apply_patch_call: 'call',
  computer_call: 'call',
  mcp_approval_request: 'call',
}

/** A shell in the provider's container. One without an environment is the client's. */
function isContainer(item: JsonObject): boolean {
  const { type } = objectOr(item['environment'])
  return typeof type === 'string' && type !== 'local'
}
