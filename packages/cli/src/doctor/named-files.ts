/** The files that a model server's command reads, as far as its words show. Pure: looks at no disk. */

export type NamedFile = {
  readonly path: string
  /** The flag that it belongs to, or undefined for a word on its own. */
  readonly flag: string | undefined
}

/** Values of unknown flags are left out: a log file, for example, need not exist yet. So are names of models in a registry. */
export function filesNamedIn(command: readonly string[]): readonly NamedFile[] {
  return command.slice(1).flatMap((word, index) => {
    const [, flag, value = ''] = /^(--?[\w-]+)=(.*)$/s.exec(word) ?? []
    if (flag !== undefined) return INPUT_FLAGS.has(flag) && isFile(value) ? [{ path: value, flag }] : []
    const before = command[index] ?? '' // `index` counts without the program
    const isValue = index > 0 && /^-[^=]*$/.test(before)
    if (!isFile(word) || (isValue && !INPUT_FLAGS.has(before))) return []
    return [{ path: word, flag: isValue ? before : undefined }]
  })
}

// ---- details ----

/** Of llama-server, vLLM, SGLang and servers with the same flags. */
const INPUT_FLAGS: ReadonlySet<string> = new Set([
  '-m',
  '--model',
  '--model-path',
  '-mm',
  '--mmproj',
  '-md',
  '--model-draft',
  '--lora',
  '--control-vector',
  '--grammar-file',
  '--json-schema-file',
  '--chat-template',
  '--chat-template-file',
  '--tokenizer',
  '--tokenizer-path',
  '--config',
  '--api-key-file',
  '--ssl-key-file',
  '--ssl-cert-file',
  '--ssl-keyfile',
  '--ssl-certfile',
])

/** `Qwen/Qwen3-8B` is a name in a registry; `./Qwen3-8B`, `/models/qwen` and `qwen.gguf` are files. */
const isFile = (word: string): boolean =>
  !word.includes('{port}') &&
  !word.includes('\n') &&
  (/^(?:\/|\.\.?\/|~\/)/.test(word) ||
    /^[^-\s:][^:]*\.(?:gguf|ggml|bin|safetensors|jinja|gbnf|json|ya?ml|pem|key|crt|py|[cm]?[jt]s|sh)$/i.test(word))
