/**
 * Every OpenTelemetry name that Breakfall uses, in one table. The GenAI conventions are still in development and rename things:
 * a new version of them is a change of this file, and of the version in it.
 */
export const TELEMETRY = {
  /** Of this table. Instrumentation scopes carry it. */
  version: '1',
  /** What the `gen_ai` names follow. */
  conventions: 'semantic-conventions-genai (development), October 2026',
  scope: 'breakfall',
  spans: { agent: 'invoke_agent breakfall', chat: 'chat', tool: 'execute_tool' },
  operations: { agent: 'invoke_agent', chat: 'chat', tool: 'execute_tool' },
  attributes: {
    operation: 'gen_ai.operation.name',
    provider: 'gen_ai.provider.name',
    agent: 'gen_ai.agent.name',
    conversation: 'gen_ai.conversation.id',
    requestModel: 'gen_ai.request.model',
    finishReasons: 'gen_ai.response.finish_reasons',
    timeToFirstChunk: 'gen_ai.response.time_to_first_chunk',
    inputTokens: 'gen_ai.usage.input_tokens',
    outputTokens: 'gen_ai.usage.output_tokens',
    cacheReadTokens: 'gen_ai.usage.cache_read.input_tokens',
    cacheWriteTokens: 'gen_ai.usage.cache_creation.input_tokens',
    tokenType: 'gen_ai.token.type',
    toolName: 'gen_ai.tool.name',
    toolCall: 'gen_ai.tool.call.id',
    errorType: 'error.type',
    serverAddress: 'server.address',
    serverPort: 'server.port',
    method: 'http.request.method',
    status: 'http.response.status_code',
    resendCount: 'http.request.resend_count',
    phase: 'breakfall.attempt.phase',
    backoffMs: 'breakfall.backoff_ms',
    turn: 'breakfall.turn.id',
    step: 'breakfall.step',
    category: 'breakfall.fault.category',
    outcome: 'breakfall.tool.outcome',
  },
  events: { parked: 'breakfall.parked' },
  metrics: {
    duration: 'gen_ai.client.inference.duration',
    firstChunk: 'gen_ai.client.inference.time_to_first_chunk',
    perChunk: 'gen_ai.client.inference.time_per_output_chunk',
    tokens: 'gen_ai.client.token.usage',
  },
} as const
