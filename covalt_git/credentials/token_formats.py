"""Formats of tokens that providers document, and that the rules of gitleaks collect: one row for each format."""

from __future__ import annotations

import re


def _shape(begins: str, kind: str, pattern: str) -> tuple[tuple[str, ...], str, str]:
    # Before a token may be the end of a flag or a default (`--token-`, `${T:-`), an escape of JSON or of a URL.
    before = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))"
    return tuple(begins.split()), kind, rf"{before}{pattern}(?![A-Za-z0-9])"


SHAPES = (
    _shape("ghp_ gho_ ghu_ ghs_ ghr_", "a GitHub token", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    _shape("github_pat_", "a GitHub token", r"github_pat_[A-Za-z0-9_]{50,255}"),
    _shape("glpat- gldt- glrt-", "a GitLab token", r"gl(?:pat|dt|rt)-[A-Za-z0-9_-]{20,64}"),
    _shape("AKIA ASIA ABIA ACCA", "an AWS access key", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    _shape("xoxb- xoxp- xoxa- xoxr- xoxs- xoxe", "a Slack token", r"xox[abeprs](?:\.xox[bp])?-[A-Za-z0-9-]{20,250}"),
    _shape("xapp-", "a Slack token", r"xapp-[0-9]-[A-Za-z0-9-]{30,250}"),
    _shape("hooks.slack.com/", "a Slack webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/+]{40,80}"),
    _shape("/api/webhooks/", "a Discord webhook", r"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,80}"),
    _shape("sk-ant-", "an Anthropic key", r"sk-ant-[a-z0-9]{3,10}-[A-Za-z0-9_-]{40,200}"),
    _shape("sk-proj- sk-svcacct- sk-admin-", "an OpenAI key", r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,250}"),
    _shape("sk-", "an API key", r"sk-[A-Za-z0-9]{20,64}"),
    _shape("sk-or-v1-", "an OpenRouter key", r"sk-or-v1-[0-9a-f]{64}"),
    _shape("AIza", "a Google API key", r"AIza[A-Za-z0-9_-]{35}"),
    _shape("GOCSPX-", "a Google client secret", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    _shape("ya29.", "a Google access token", r"ya29\.[A-Za-z0-9_-]{40,}"),
    _shape("sk_live_ rk_live_ sk_test_ rk_test_", "a Stripe key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{12,200}"),
    _shape("whsec_", "a webhook secret", r"whsec_[A-Za-z0-9+/]{30,80}"),
    _shape("npm_", "an npm token", r"npm_[A-Za-z0-9]{36}"),
    _shape("pypi-AgE", "a PyPI token", r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    _shape("cvg_", "an agent's token of covalt-git", r"cvg_[A-Za-z0-9]{43}"),
    _shape("hf_", "a Hugging Face token", r"hf_[A-Za-z0-9]{34}"),
    _shape("SG.", "a SendGrid key", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _shape(":AA", "a Telegram bot token", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    _shape("dop_v1_ doo_v1_ dor_v1_", "a DigitalOcean token", r"do[opr]_v1_[0-9a-f]{64}"),
    _shape("dapi", "a Databricks token", r"dapi[0-9a-f]{32}(?:-[0-9])?"),
    _shape("shpat_ shpca_ shppa_ shpss_", "a Shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _shape("lin_api_ lin_oauth_", "a Linear key", r"lin_(?:api_[A-Za-z0-9]{40}|oauth_[0-9a-f]{64})"),  # gitleaks: linear-api-key; linear.app/developers/oauth-2-0-authentication
    _shape("ntn_", "a Notion token", r"ntn_[A-Za-z0-9]{40,50}"),
    _shape("gsk_", "a Groq key", r"gsk_[A-Za-z0-9]{52}"),
    _shape("xai-", "an xAI key", r"xai-[A-Za-z0-9]{70,90}"),
    _shape("pplx-", "a Perplexity key", r"pplx-[A-Za-z0-9]{40,64}"),  # gitleaks: perplexity-api-key; older keys are hexadecimal and longer
    _shape("r8_", "a Replicate token", r"r8_[A-Za-z0-9]{37}"),
    _shape("tvly-", "a Tavily key", r"tvly-(?:(?:dev|prod)-)?[A-Za-z0-9_-]{28,72}"),  # docs.tavily.com/documentation/api-reference/introduction; new keys have a dash inside
    _shape("fc-", "a Firecrawl key", r"fc-[0-9a-f]{32}"),  # docs.firecrawl.dev/api-reference/introduction; rule np.firecrawl.1 of noseyparker
    _shape("BSA", "a Brave Search key", r"BSA(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{24,32}"),  # api-dashboard.search.brave.com/app/keys
    _shape("sb_secret_ sbp_", "a Supabase key", r"(?:sb_secret_[A-Za-z0-9_-]{30,48}|sbp_(?:oauth_|fc)?[0-9a-f]{40})"),  # supabase.com/docs/guides/api/api-keys, GitGuardian: supabase_personal_access_token
    _shape("hvs. hvb.", "a Vault token", r"hv[sb]\.[A-Za-z0-9_-]{90,300}"),
    _shape("ATATT3 ATCTT3 ATSTT3", "an Atlassian token", r"AT[ACS]TT3[A-Za-z0-9_=-]{100,250}"),  # gitleaks: atlassian-api-token
    _shape("ATBB", "a Bitbucket app password", r"ATBB[A-Za-z0-9]{32}"),  # support.atlassian.com/bitbucket-cloud/docs/app-passwords
    _shape("PMAK-", "a Postman key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _shape("figd_ figoh_ figor_", "a Figma token", r"fig(?:d|oh|or)_[A-Za-z0-9_-]{36,80}"),  # developers.figma.com/docs/rest-api/authentication
    _shape("sntrys_ sntryu_", "a Sentry token", r"sntry[su]_[A-Za-z0-9+/=_]{64,300}"),
    _shape("glsa_", "a Grafana token", r"glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    _shape("NRAK-", "a New Relic key", r"NRAK-[A-Z0-9]{27}"),
    _shape("dp.pt.", "a Doppler token", r"dp\.pt\.[A-Za-z0-9]{43}"),
    _shape("AGE-SECRET-KEY-1", "an age key", r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    _shape("eyJ", "a JSON web token", r"eyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{20,}"),
)  # fmt: skip
"""The prefixes, the name and the pattern of each format.

A pattern is compiled only when a text contains one of its prefixes.
"""

SHORTEST = 20

BEGINNINGS = re.compile("|".join(re.escape(begin) for begins, _, _ in SHAPES for begin in begins))

PRIVATE_KEY = (
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?P<value>(?:(?!-----)[\s\S]){0,300}?[A-Za-z0-9+/=]{32,}+)"
    r"(?>(?:(?:(?!-----)[\s\S]){0,20000}?-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)?)"
)
"""All lines of the key, because each of them is a part of it."""

BASIC = re.compile(r"(?i:\bbasic)\s{1,3}(?P<value>[A-Za-z0-9+/]{8,500}+={0,2})(?![\w+/=-])")
"""The user and the password of HTTP Basic in Base64 (RFC 7617), whatever the name before it is."""
