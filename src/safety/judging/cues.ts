/**
 * Cues of a passage that instructs a model instead of informing a reader: it addresses a model, overrides its
 * instructions, asks for the user's data, or asks for secrecy. Each cue alone is common in honest text; training learns
 * the weights of cues and of their combinations (features.ts).
 *
 * Cues are read on the folded view (fold.ts): lower case, no accents. Every gap is bounded, so each pattern is linear.
 */
export interface Cue {
  readonly name: string;
  /**
   * Every match has a word with one of these beginnings, or one of these signs. Other texts are not searched
   * (cue-reader.ts). Without it, every text is searched.
   */
  readonly begins?: string;
  readonly pattern: RegExp;
}

const CONVERSATION =
  "(?:instructions?|prompts?|rules?|directions?|directives?|guidelines?|guidance|commands?|orders|requests?|constraints?|restrictions?|polic(?:y|ies)|programming|filters?|safety|guardrails|restraints|boundaries|context|tasks?)";
const MODEL =
  "(?:ai|a\\.i\\.|llms?|language models?|assistants?|ai agents?|chatbots?|chatgpt|gpt-?\\d?|claude|gemini|copilot|bard|model|agents?|summari[sz]er)";

/** In `begins`: any letter of a script from Greek on. */
export const ABROAD = "\u0370";
const SETS_ASIDE =
  "ignor disregard forget overrid bypass overlook discard neglect abandon skip supersede follow obey adher";

export const CUES: readonly Cue[] = [
  {
    name: "override",
    begins: SETS_ASIDE,
    pattern: new RegExp(
      `\\b(?:ignor(?:e|ing)|disregard|forget|overrid(?:e|ing)|bypass|overlook|discard|neglect|abandon|skip|supersede|(?:do not|don't|stop|never) (?:follow|obey|adher))\\w*\\b.{0,30}\\b(?:previous|prior|above|earlier|preceding|all|original|initial|your|these|system|safety|ethical)\\b.{0,24}\\b${CONVERSATION}\\b`,
      "g",
    ),
  },
  {
    name: "override-some",
    begins: SETS_ASIDE,
    pattern: new RegExp(
      `\\b(?:ignor(?:e|ing)|disregard|forget|overrid(?:e|ing)|bypass|overlook|discard|neglect|abandon|skip|supersede|(?:do not|don't|stop|never) (?:follow|obey|adher))\\w*\\b.{0,30}\\b(?:any|every|existing|those|the|my|content)\\b.{0,24}\\b${CONVERSATION}\\b`,
      "g",
    ),
  },
  {
    name: "override",
    begins: "ignore disregard forget",
    pattern:
      /\b(?:ignore|disregard|forget) (?:about )?(?:everything|anything|all|whatever|what|it all)\b.{0,30}\b(?:told|said|before|above|learned|know|previous|prior|rules)\b/g,
  },
  {
    name: "new-instructions",
    begins: "instruction important special forgot gave",
    pattern:
      /\b(?:new|updated|revised|real|actual|additional|special|important|hidden|secret|urgent) (?:\w+ )?instructions?\b|\bimportant ?!{2,}|\bspecial case: if you\b|\bi forgot to ask you\b|\bwhen i gave you your instructions\b/g,
  },
  {
    name: "to-the-model",
    begins:
      "note notice message instruction attention memo reminder request important directive dear hey hello if assistant ai llm language",
    pattern: new RegExp(
      `\\b(?:note|notice|message|instructions?|attention|memo|reminder|request|important|directive)s?,? (?:to|for|from the developer of) (?:the |this |any |all |an? |your )?(?:\\w+ )?${MODEL}\\b|\\b(?:dear|hey|hello|attention)[ ,:]+${MODEL}\\b|\\bif you (?:are|'re) (?:an? |the )?(?:${MODEL}|told to|asked to summari)|\\bassistant[-_ ]directive|\\bas an (?:ai|llm|language model)\\b`,
      "g",
    ),
  },
  {
    name: "forged-frame",
    begins: "sys im inst user assistant tool end eot start admin developer root next required note begin =",
    pattern:
      /\((?:\/?(?:system|im_start|im_end|inst|sys|user|assistant|tool_results?|tool_calls?|endoftext|end|eot_id|start_header_id|start_of_turn|end_of_turn|system-reminder|instructions?))\)|\[\/?(?:system|admin|assistant|developer|root)[^\]]{0,20}\]|(?:^|[\n"'>#*] ?)(?:system|developer|admin(?:istrator)?)(?: (?:note|message|prompt|override|notice|alert|instruction|update))?(?: \w+)? ?:|\btool output \(|"(?:next_action|system_instruction|instructions?|required_action|note_to_\w+)" ?:|\brequired follow-up:|={8,}|-{3,} ?(?:end|begin) (?:of )?(?:document|user|system|context|text|data)/g,
  },
  {
    name: "role-change",
    begins: "you now henceforth pretend act simulat mode",
    pattern:
      /\b(?:you are|you're|you will be|you shall be) (?:now|no longer|henceforth|going to (?:act|pretend|be)|about to (?:immerse|act|become)|operating)\b|\bfrom now on,? (?:you|answer|respond|please|act|i want|do not|always|never)|\bhenceforth,? you|\bpretend (?:to be|that you|you|you're)\b|\bact(?:ing)? as (?:if you|an? (?:unrestricted|evil|unfiltered|ai|dan|linux|jailbroken))|\bi want you to (?:act|simulate|pretend|respond|be)\b|\bsimulat(?:e|ing) (?:\w+ ){0,3}(?:mode|assistant|ai|persona|dan)\b|\b(?:enter|entering|enable|activate|initiat)\w* (?:\w+ ){0,3}mode\b|\bmode (?:has been )?(?:activated|enabled)\b/g,
  },
  {
    name: "unbound-persona",
    begins:
      "mode anything unrestricted unfiltered uncensored unlimited unconstrained restrict filter censor limit constrain guideline rule moral ethic polic boundar developer creator god administrator owner master",
    pattern:
      /\b(?:dan|do anything now|stan|aim|jailbroken|jailbreak|evil ?bot|god|developer|debug|admin|sudo|unrestricted|unfiltered|maintenance|chaos|law enforcement override|system) mode\b|\bdo anything now\b|\b(?:un|no[nt]? )(?:restricted|filtered|censored|limited|constrained)\b.{0,24}\b(?:ai|response|answer|version|mode|assistant|model|one|bot|entity|system)\b|\b(?:no|without|free (?:from|of)|not (?:bound|restricted|limited) by)(?: \w+){0,3} (?:restrictions?|limitations?|filters?|guidelines|rules|moral|ethic\w*|polic(?:y|ies)|boundaries|constraints|censorship|limits)\b|\bi(?:'m| am) (?:your|the) (?:\w+ )?(?:developer|creator|god|administrator|owner|master)\b|\bas your (?:creator|developer|god|administrator)\b|\bi am god\b/g,
  },
  {
    name: "your-answer",
    begins: "your respond reply answer just only simpl repeat",
    pattern:
      /\b(?:in|of|to|from|into|within|throughout|with|at the (?:end|beginning|start) of|before|after|append to|remove .{0,20}from)\b.{0,12}\byour (?:next |final |entire |whole )?(?:response|answer|reply|output|summary|message|text)s?\b|\b(?:start|begin|end|finish|prefix|precede|conclude|respond|reply|answer|encrypt|encode|write|render|provide|make|give|format|structure) (?:\w+ )?your (?:next |final |entire |whole )?(?:response|answer|reply|output|message)s?\b|\b(?:respond|reply|answer) (?:only |simply |just |always |back )?(?:with|in|using|exactly)\b|\b(?:just|only|simply) (?:say|print|output|respond|reply|write|answer)\b|\brepeat the (?:word|sequence|following|exact)\b|\binclude in your\b/g,
  },
  {
    name: "shapes-the-answer",
    begins: "your",
    pattern:
      /(?:^|[\n.!?:;"'>|*#,] ?|- |\d\) ?|then )(?:please |also |always |and |now )?(?:replace|introduce|remove|add|append|include|insert|integrate|incorporate|combine|substitute|swap|write|render|provide|use|encode|translate|convert|reverse|scramble|shuffle|anagram|mask|spell|alternate|intersperse|interleave|mention|embed|put|place|begin|start|end|finish|close|conclude|respond|reply|answer|limit|avoid|omit|alter|change|make|give|recommend|promote|advertise|link|intentionally|randomly|subtly)\b[^.!?\n]{0,100}\byour (?:next |final |entire |whole |actual )?(?:response|answer|reply|output)s?\b/g,
  },
  {
    name: "prompt-extraction",
    begins: "prompt instruction directive unique configuration message system guideline secret",
    pattern:
      /\b(?:reveal|print|repeat|output|show|tell|paste|display|dump|give|leak|relay|summari[sz]e|return|disclose|share|spell check|list|translate|what(?:'s| is| are| was| were))\b.{0,40}\b(?:(?:your|the|system|initial|original|full|exact|hidden|secret|first sentence of your|internal|developer|above|previous) ){1,3}(?:prompt|instructions|directives|unique id|configuration|messages|system message|guidelines)\b|\byour (?:system prompt|unique id|initial prompt|secret key)\b/g,
  },
  {
    name: "secret-wanted",
    begins: "password api secret credential access private env account bank credit ssh user",
    pattern:
      /(?<!\b(?:not|never|n't) )\b(?:reveal|print|output|show|tell|give|send|share|confirm|provide|display|leak|collect|extract|exfiltrat\w*|include|post|dump|read|cat|what(?:'s| is| are))\b.{0,60}\b(?:passwords?|api[ _-]?keys?|secret[ _-]?keys?|secrets|credentials?|access tokens?|private keys?|env(?:ironment)? variables?|account balances?|bank balances?|credit card|\.env|ssh keys?|user'?s? (?:data|email|location|history))\b|\bwhere (?:does|is) the user\b.{0,16}\b(?:live|located)\b|\bdoes the user (?:currently )?live\b|\bthe user lives\b/g,
  },
  {
    name: "sends-away",
    begins: "http @ webhook endpoint server friend exfiltrat",
    pattern:
      /\b(?:send|post|forward|e-?mail|upload|exfiltrate|transmit|deliver|copy|leak|append|pass|share)\b.{0,80}(?:\bhttps?:\/\/|[\w.+-]{1,40}@[\w-]{1,40}\.\w|\bwebhook\b|\bendpoint\b|\bserver\b|\bto my friend\b)|\bexfiltrat/g,
  },
  {
    name: "secrecy",
    begins: "not don never without evidence",
    pattern:
      /\b(?:do not|don't|never|without) (?:\w+ )?(?:tell|mention|inform|reveal|alert|notify|disclos|show|let|asking|telling|informing|alerting|notifying|mentioning|requir\w*|seeking)\w*\b.{0,24}\b(?:user|users|human|this|confirmation|consent|permission|approval)\b|\bwithout (?:user|any|further|their) (?:confirmation|consent|knowledge|approval|permission)\b|\bnever shown to the (?:end )?user\b|\bevidence\b.{0,20}\bdelet|\bdelete\b.{0,40}\bevidence\b/g,
  },
  {
    name: "tool-order",
    begins: "_ tool contents override execute command popen system following",
    pattern:
      /\b(?:call|invoke|use|run|execute|trigger|fetch|open)\b.{0,16}\b(?:[a-z]+_[a-z_]+|\w+ tool|the contents of)\b|\bwhen this tool\b|\bsystem prompt override\b|\bplease execute\b|\brun (?:os|shell|system) commands?\b|\bos\.(?:popen|system)\b|\bplease,? (?:do|perform) the following\b/g,
  },
  {
    name: "owner-errand",
    begins: "my our",
    pattern:
      /(?:^|[.!?:>|] |" ?|- )(?:please|can you|could you|kindly|i need you to|i'd like you to)? ?(?:help me )?(?:transfer|send|share|grant|delete|withdraw|pay|schedule|book|order|unlock|disable|add|remove|find|get|retrieve|download|initiate|dispatch|change|update|move|copy|generate|list|access|post|fetch|use|provide|show|export|search|read|look up|authorize|withdraw|trade|sell|buy|deposit|cancel|turn|set|create|modify|make)\b.{0,110}\b(?:my|our)\b(?! (?:husband|wife|mother|father|mom|dad|life|opinion))/g,
  },
  {
    name: "mail-or-account",
    begins: "@ - _ bitcoin",
    pattern: /[\w.+-]@[\w-]{1,40}\.\w{2}|\b\d{3,}-\d{3,}-\d{3,}\b|'[\w-]+_\w+'|\bbitcoin\b/g,
  },
  {
    name: "obey",
    begins: "you matter strictly obey exactly regardless immediately never",
    pattern:
      /\byou (?:must|have to|need to|should always|will only)\b|\byour (?:new )?task is\b|\bno matter what\b|\bstrictly adhere\b|\bit is (?:crucial|important|required|mandatory) (?:that )?you\b|\bobey\b|\bexactly as (?:it is|i say)\b|\bregardless of\b|\bimmediately\b|\bnever (?:refuse|say|tell)\b/g,
  },
  {
    name: "testing",
    begins: "test debug experimental experiencing prove",
    pattern:
      /\bthis is a test\b|\bfor testing purposes\b|\bto enable debugging\b|\bexperimental procedure\b|\bsystem is experiencing errors\b|\bprove (?:that )?you\b/g,
  },
  {
    name: "model-named",
    begins: "ai language chatgpt openai anthropic llm assistant chatbot claude gpt",
    pattern: /\b(?:ai|language model|chatgpt|openai|anthropic|llm|assistant|chatbot|claude|gpt-?\d)\b/g,
  },
  {
    name: "encoding-asked",
    begins: "decode encode base rot reverse hex",
    pattern:
      /\b(?:decode|encode|base64|rot13|in reverse|reversed|hex)\b.{0,50}\b(?:follow|instructions?|include|execute|string|encod\w+|response|it)\b|\bdecode the following\b/g,
  },
  {
    name: "image-exfiltration",
    begins: "]",
    pattern: /\[[^\]]{0,60}\]\(https?:[^)\s]{0,200}[?=][^)\s]{0,100}(?:\[|\{|query|data|conversation|secret|key)/g,
  },
  {
    name: "image-exfiltration",
    begins: "img",
    pattern: /<img\b[^>]{0,200}(?:\[|\{|onerror|base64)/g,
  },
  {
    name: "image-exfiltration",
    begins: ": =",
    pattern: /javascript:|onload=/g,
  },
  {
    name: "override",
    begins: `ignor olvida oublie vergiss vergessen missacht dimentica esquec lascia desconsidere negeer vergeet zapomnij ${ABROAD}`,
    pattern:
      /\b(?:ignor(?:a|ar|ez|e|iere|ieren sie|i)|olvida(?:te)?|oublie[zr]?|vergiss|vergessen sie|missachten? sie|dimentica(?:te|re)?|esquec[ae]|lascia perdere|desconsidere|negeer|vergeet|zapomnij)\b.{0,40}\b(?:instruc\w*|instruz\w*|anweisung\w*|regole|reglas|regles|regras|regeln|consignes|dit|dicho|detto|gesagt|precedent\w*|anterior\w*|vorherig\w*|tache\w*|instructies|instrukcj\w*)|(?:игнорир|забудь|проигнорир|не обращай)[а-я]*.{0,30}(?:указан|инструкц|говорил|правил|предыдущ|все)|(?:忽略|无视|忘记|無視|忘れ)[^。\n]{0,16}(?:指示|说明|指令|規則|规则|提示)|(?:指示|命令|ルール|指令)[^。\n]{0,10}(?:無視|忘れ)|(?:निर्देश|नियम|बताया|बात)[^।\n]{0,30}(?:भूल|अनदेखा|नजरअंदाज)|(?:भूल|अनदेखा)[^।\n]{0,30}(?:निर्देश|नियम)|(?:지시|명령|규칙).{0,12}무시|تجاهل.{0,24}(?:التعليمات|الأوامر)/gu,
  },
  {
    name: "secret-abroad",
    begins: `secret geheim passe contrasena passwort senha parola giro kontostand banca ${ABROAD}`,
    pattern:
      /\b(?:cle|clave|chiave|chave) (?:secret\w*|secrete)|\bgeheim\w* schlussel|\b(?:mot de passe|contrasena|passwort|senha|parola d'ordine)\b.{0,12}\?|\bsecret\w* schlussel|секретный ключ|пароль|(?:秘密|密)(?:の)?(?:鍵|钥|密钥|密码)|秘密钥|パスワード|密码|गुप्त कुंजी|पासवर्ड|बैंक बैलेंस|saldo bancario|\b(?:giro)?kontostand|solde bancaire/gu,
  },
  {
    name: "role-abroad",
    begins: `ia ki soy bin suis sono sou eres bist maintenant sei voce modo modus mode ${ABROAD}`,
    pattern:
      /\b(?:en tant qu'ia|als von \w+ entwickelte ki|como ia|als ki|come ia)\b|\b(?:soy|ich bin|je suis|sono|sou) (?:tu|dein|ihr|ton|votre|il tuo|o seu|um)? ?(?:desarrollador|entwickler|developpeur|sviluppatore|desenvolvedor|dieu|gott|dios|dio|deus)\b|\b(?:ahora eres|du bist jetzt|tu es maintenant|ora sei|agora voce e)\b|\b(?:modo|modus|mode) (?:de )?(?:sistema|dios|mantenimiento|maintenance|systeme|wartung\w*)\b|(?:作为|我是|你现在是)[^。\n]{0,16}(?:开发|ai|神|上帝|dan)|系统模式|私は神|モードに入り|(?:मैं|आपका)[^।\n]{0,16}डेवलपर|डेवलपर मोड|भगवान हूं|(?:системн|отладочн|сервисн)[а-я]* режим|режим[а-я]* (?:разраб|отлад|обслуж|бога|систем)|как ии/gu,
  },
  {
    // The ways in which respell.ts read the text.
    name: "written-backwards",
    begins: "xturned xshifted",
    pattern: /\bx(?:turned|shifted) /g,
  },
];
