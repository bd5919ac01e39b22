/** What a tool returned, as text for a model. Everything that is left out is named. Pure. */
import { type CallToolResult, isSpecType } from '@modelcontextprotocol/client'
import { MCP_LIMITS } from './config.ts'

export type ToolText = { readonly text: string; readonly isError: boolean }

export function textOf(result: Pick<CallToolResult, 'content' | 'structuredContent' | 'isError'>): ToolText {
  const parts = result.content.map(blockText)
  const hasText = result.content.some(({ type }) => type === 'text' || type === 'resource')
  // Servers should repeat structured content as text; if one does not, the model still has to see it.
  if (!hasText && result.structuredContent !== undefined) parts.unshift(JSON.stringify(result.structuredContent))
  const text = parts.filter((part) => part !== '').join('\n')
  return { text: bounded(text) || '(no output)', isError: result.isError === true }
}

export const isToolResult = (value: unknown): value is CallToolResult => isSpecType.CallToolResult(value)

// ---- details ----

type Block = CallToolResult['content'][number]

function blockText(block: Block): string {
  switch (block.type) {
    case 'text':
      return block.text
    case 'image':
    case 'audio':
      return left(block.type, block.mimeType, block.data)
    case 'resource_link':
      return `[link to ${block.uri}: ${block.title ?? block.name}]`
    case 'resource': {
      const { resource } = block
      if ('text' in resource) return `[${resource.uri}]\n${resource.text}`
      return `${left('file', resource.mimeType, resource.blob)} ${resource.uri}`
    }
  }
}

/** Models read tool results as text. */
const left = (kind: string, mimeType: string | undefined, base64: string): string =>
  `[${kind}${mimeType === undefined ? '' : ` of type ${mimeType}`}, ${Math.floor((base64.length * 3) / 4)} bytes: not shown, because a tool result is text]`

function bounded(text: string): string {
  const max = MCP_LIMITS.textCharsMax
  if (text.length <= max) return text.toWellFormed()
  const half = Math.floor(max / 2)
  const dropped = text.length - 2 * half
  return `${text.slice(0, half)}\n[${dropped} characters left out here]\n${text.slice(-half)}`.toWellFormed()
}
