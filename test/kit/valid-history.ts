/**
 * What the four APIs take for a valid conversation, as strict servers check it. Written from their documents and refusals, apart from the
 * code that repairs requests: the two have to agree, and neither is the other's measure.
 */
export type HistoryApi = 'anthropic-messages' | 'openai-chat' | 'openai-responses' | 'gemini'

type Json = Readonly<Record<string, unknown>>

/** What a strict server would refuse, in its own words. Empty: it takes the request. */
export function problemsIn(api: HistoryApi, body: Json): readonly string[] {
  switch (api) {
    case 'anthropic-messages':
      return messageProblems(body)
    case 'openai-chat':
      return chatProblems(objects(body['messages']))
    case 'openai-responses':
      return responseProblems(body)
    case 'gemini':
      return geminiProblems(objects(body['contents']))
  }
}

// ---- details ----

const objects = (value: unknown): readonly Json[] => (Array.isArray(value) ? (value as Json[]) : [])
const text = (value: unknown): string => (typeof value === 'string' ? value : '')
const isBlank = (value: unknown): boolean => typeof value === 'string' && value.trim() === ''
const count = (list: readonly string[], one: string): number => list.filter((each) => each === one).length

function messageProblems(body: Json): readonly string[] {
  const found: string[] = []
  const turns = objects(body['messages']).filter(({ role }) => role !== 'system')
  const ids: string[] = []
  let marks = [...objects(body['system']), ...objects(body['tools'])].filter(
    (one) => one['cache_control'] !== undefined,
  ).length
  for (const block of objects(body['system'])) if (isBlank(block['text'])) found.push('system: blank text')
  for (const [at, turn] of turns.entries()) {
    const isLast = at === turns.length - 1
    const content = turn['content']
    const blocks = objects(content)
    if (typeof content === 'string' ? isBlank(content) : blocks.length === 0)
      if (!(isLast && turn['role'] === 'assistant'))
        found.push(`messages.${at}: all messages must have non-empty content`)
    for (const block of blocks) {
      if (block['type'] === 'text' && isBlank(block['text']))
        found.push(`messages.${at}: text content blocks must be non-empty`)
      marks += [block, ...objects(block['content'])].filter((one) => one['cache_control'] !== undefined).length
    }
    const results = blocks.filter(({ type }) => type === 'tool_result')
    if (turn['role'] === 'assistant') {
      const calls = blocks.filter(({ type }) => type === 'tool_use').map(({ id }) => text(id))
      const next = turns[at + 1]
      const answers =
        next?.['role'] === 'user'
          ? objects(next['content'])
              .filter(({ type }) => type === 'tool_result')
              .map((one) => text(one['tool_use_id']))
          : []
      for (const id of calls) {
        if (ids.includes(id)) found.push(`messages.${at}: \`tool_use\` ids must be unique`)
        ids.push(id)
        if (count(answers, id) === 0)
          found.push(
            `messages.${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${id}`,
          )
        if (count(answers, id) > 1) found.push(`messages.${at + 1}: each tool_use must have a single result`)
      }
      continue
    }
    const before = turns[at - 1]
    const asked =
      before?.['role'] === 'assistant'
        ? objects(before['content'])
            .filter(({ type }) => type === 'tool_use')
            .map(({ id }) => text(id))
        : []
    for (const result of results)
      if (!asked.includes(text(result['tool_use_id'])))
        found.push(
          `messages.${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${text(result['tool_use_id'])}`,
        )
    if (blocks.slice(0, results.length).some(({ type }) => type !== 'tool_result'))
      found.push(`messages.${at}: results come first`)
  }
  if (marks > 4) found.push(`A maximum of 4 blocks with cache_control may be provided. Found ${marks}.`)
  return found
}

function chatProblems(messages: readonly Json[]): readonly string[] {
  const found: string[] = []
  for (const [at, message] of messages.entries()) {
    if (message['role'] === 'tool') {
      let caller = at
      while (messages[caller]?.['role'] === 'tool') caller--
      const ids = objects(messages[caller]?.['tool_calls']).map(({ id }) => text(id))
      if (!ids.includes(text(message['tool_call_id'])))
        found.push(
          `messages.[${at}]: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'`,
        )
      continue
    }
    const ids = objects(message['tool_calls']).map(({ id }) => text(id))
    const answers: string[] = []
    for (let next = at + 1; messages[next]?.['role'] === 'tool'; next++)
      answers.push(text(messages[next]?.['tool_call_id']))
    for (const id of ids) {
      if (count(ids, id) > 1) found.push(`messages.[${at}]: an id twice`)
      if (count(answers, id) !== 1)
        found.push(
          `messages.[${at}]: 'tool_calls' must be followed by tool messages responding to each 'tool_call_id': ${id}`,
        )
    }
  }
  return found
}

const CALLS: Readonly<Record<string, string>> = {
  function_call: 'function_call_output',
  custom_tool_call: 'custom_tool_call_output',
  local_shell_call: 'local_shell_call_output',
  shell_call: 'shell_call_output',
  apply_patch_call: 'apply_patch_call_output',
  computer_call: 'computer_call_output',
}

function responseProblems(body: Json): readonly string[] {
  const found: string[] = []
  const items = objects(body['input'])
  const isOpenEnded = body['previous_response_id'] != null || body['conversation'] != null
  const keys = items.map((item) => `${text(item['type'])} ${text(item['call_id'])}`)
  for (const [at, item] of items.entries()) {
    const id = text(item['call_id'])
    const output = CALLS[text(item['type'])]
    if (output !== undefined) {
      const answers = keys.flatMap((key, index) => (key === `${output} ${id}` ? [index] : []))
      if (answers.length === 0) found.push(`No tool output found for function call ${id}.`)
      if (answers.length > 1) found.push(`input[${at}]: two outputs for ${id}`)
    } else if (text(item['type']).endsWith('_call_output') && !isOpenEnded) {
      const call = Object.entries(CALLS).find(([, of]) => of === item['type'])?.[0]
      if (!keys.includes(`${call} ${id}`)) found.push(`No tool call found for function call output with call_id ${id}.`)
    }
  }
  return found
}

const callOf = (part: Json): Json | undefined => (part['functionCall'] ?? part['function_call']) as Json | undefined
const responseOf = (part: Json): Json | undefined =>
  (part['functionResponse'] ?? part['function_response']) as Json | undefined

const all = (parts: readonly Json[], inPart: (part: Json) => Json | undefined): readonly Json[] =>
  parts.map(inPart).filter((one) => one !== undefined)

function geminiProblems(contents: readonly Json[]): readonly string[] {
  const found: string[] = []
  for (const [at, content] of contents.entries()) {
    const parts = objects(content['parts'])
    if (parts.length === 0)
      found.push(`* GenerateContentRequest.contents[${at}].parts: contents.parts must not be empty.`)
    const isModel = content['role'] === 'model'
    const calls = isModel ? all(parts, callOf) : []
    const responses = isModel ? [] : all(parts, responseOf)
    const before = contents[at - 1]
    const asked = before?.['role'] === 'model' ? all(objects(before['parts']), callOf) : []
    if (calls.length > 0 && (before === undefined || before['role'] === 'model'))
      found.push(
        'Please ensure that function call turn comes immediately after a user turn or after a function response turn.',
      )
    const names = (list: readonly Json[]): string =>
      list
        .map(({ id, name }) => text(id ?? name))
        .toSorted()
        .join()
    const isSame =
      responses.length === asked.length &&
      (names(asked) === names(responses) ||
        asked
          .map(({ name }) => text(name))
          .toSorted()
          .join() ===
          responses
            .map(({ name }) => text(name))
            .toSorted()
            .join())
    if (!isSame || (calls.length > 0 && at === contents.length - 1))
      found.push(
        'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.',
      )
  }
  return found
}
