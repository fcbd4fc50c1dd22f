"""Keys that vendors issue, told by their form alone. Data: what begins so and is so long is a key and nothing else.

Tighter than the shapes of ``redact``: these are taken out of results of tools, where what only looks like a key must
stay as it is.
"""

from __future__ import annotations

__all__ = ["BEGINNINGS", "LONGEST", "SHAPE"]

_WORDS = (
    r"sk-ant-[a-z0-9]{2,8}-[A-Za-z0-9_-]{60,400}",  # Anthropic
    r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,400}",  # OpenAI
    r"sk-or-v1-[0-9a-f]{64}",  # OpenRouter
    r"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}",
    r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}",
    r"glpat-[A-Za-z0-9_-]{20,64}",  # GitLab
    r"(?:AKIA|ASIA)(?![A-Z0-9]{9}EXAMPLE)[A-Z2-7]{16}",  # AWS
    r"AIza[A-Za-z0-9_-]{35}",  # Google
    r"xox[abeoprs]-[0-9]{8,}-[A-Za-z0-9-]{16,250}",  # Slack
    r"hf_[A-Za-z0-9]{34,40}",  # Hugging Face
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,250}",
    r"(?:sk|rk)_live_[A-Za-z0-9]{24,250}",  # Stripe
    r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",  # SendGrid
)
"""Lengths as the vendors issue them, and as the rules of gitleaks and GitHub's secret scanning have them."""
_ANYWHERE = (r"gh[pousr]_(?:(?!gh[pousr]_)[A-Za-z0-9]){36,255}",)  # GitHub
SHAPE = "|".join([*_ANYWHERE, *(rf"(?<![A-Za-z0-9_-]){word}(?![A-Za-z0-9_-])" for word in _WORDS)])
BEGINNINGS = (
    "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "AKIA", "ASIA", "AIza", "xox", "hf_",
    "npm_", "pypi-AgE", "k_live_", "SG.", "-----BEGIN ",
)  # fmt: skip
"""One of these stands in every text that holds one."""
LONGEST = 450
