// A small agent, for trials: it streams chat completions, prints the text and runs the tool. It recovers from nothing.
import { execFileSync } from 'node:child_process'
import OpenAI from 'openai'

const client = new OpenAI()
const parameters = { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] }
const tools = [{ type: 'function', function: { name: 'bash', parameters } }]
const messages = [{ role: 'user', content: 'do the task' }]
for (;;) {
  const stream = client.chat.completions.stream({ model: 'any', messages, tools })
  stream.on('content', (text) => process.stdout.write(text))
  const { message } = (await stream.finalChatCompletion()).choices[0]
  process.stdout.write('\n')
  messages.push(message)
  if (!message.tool_calls?.length) break
  for (const call of message.tool_calls) {
    const { command } = JSON.parse(call.function.arguments)
    const content = execFileSync('sh', ['-c', command], { encoding: 'utf8' })
    messages.push({ role: 'tool', tool_call_id: call.id, content })
  }
}
